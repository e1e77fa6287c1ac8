"""Texts for a database of any size: those of the shared collections if they exist, otherwise made-up ones."""

import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.evaluation.collection import Document, read_collection
from benchmarks.corpus.made_up import make_texts
from benchmarks.place import COLLECTIONS

SOURCES = {"squad-dev": ("qrels.tsv",), "scifact": ("qrels.tsv", "qrels.train.tsv"), "cranfield": ()}
"""Collections in English; with the judgements of their queries, if these are asked in the benchmark."""

MADE_UP_KIND = "made-up words"
MADE_UP = 8_000
"""Made-up texts, about as many as the collections have."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Library:
    """The texts, and what is asked about them.

    Attributes:
        documents: the texts in random order, so that any part of them has texts of each collection.
        questions: for each collection, the queries that a text answers, by its id.
        kind: what the texts are; part of the benchmark's report.
    """

    documents: Sequence[Document]
    questions: Sequence[Mapping[str, Sequence[str]]] = ()
    kind: str = MADE_UP_KIND

    def ask_about(self, documents: Sequence[Document]) -> list[list[str]]:
        """For each collection, the queries that one of these documents answers."""
        return [
            list(dict.fromkeys(q for document in documents for q in known.get(document.id, ())))
            for known in self.questions
        ]

    def count_words(self) -> int:
        """The number of distinct words."""
        return len({word for d in self.documents for word in _WORD.findall(d.whole.lower())})


@dataclass(slots=True)
class _Shelf:
    documents: list[Document] = field(default_factory=list)
    questions: dict[str, list[str]] = field(default_factory=dict)


def read_library(most: int | None = None, folder: Path = COLLECTIONS) -> Library:
    """All texts of the shared collections, or made-up ones if there are no collections; at most `most`."""
    names = _find_sources(folder)
    if not names:
        return Library(make_texts(MADE_UP if most is None else min(most, MADE_UP)))
    shelves = [_read_shelf(folder, name) for name in names]
    documents = [document for shelf in shelves for document in shelf.documents]
    random.Random(0).shuffle(documents)
    questions = [shelf.questions for shelf in shelves if shelf.questions]
    return Library(documents[:most], questions, find_kind(folder))


def find_kind(folder: Path = COLLECTIONS) -> str:
    """What the library's texts are, without reading them."""
    return ", ".join(_find_sources(folder)) or MADE_UP_KIND


def _find_sources(folder: Path) -> list[str]:
    return [name for name in SOURCES if (folder / name).is_dir()]


def read_texts(count: int) -> list[Document]:
    """At most `count` texts of the library."""
    return list(read_library(count).documents)


def _read_shelf(folder: Path, name: str) -> _Shelf:
    shelf = _Shelf()
    for qrels in SOURCES[name] or (None,):
        collection = read_collection(folder / name, None if qrels is None else Path(qrels))
        if not shelf.documents:
            shelf.documents = [replace(d, id=f"{name} {d.id}") for d in collection.documents]
        if qrels is not None:
            for query in collection.queries:
                for document, grade in query.judgements.items():
                    if grade > 0:
                        shelf.questions.setdefault(f"{name} {document}", []).append(query.text)
    return shelf


def vary_text(original: Document, other: Document, generator: random.Random) -> str:
    """The sentences of a text in another order, with a third of them replaced by sentences of another text."""
    own = _SENTENCE.split(original.text)
    foreign = _SENTENCE.split(other.text)
    generator.shuffle(own)
    replaced = len(own) // 3 + 1
    own[:replaced] = generator.sample(foreign, min(len(foreign), replaced))
    return " ".join(own)


def make_queries(originals: Sequence[Document], seed: int, questions: Sequence[Sequence[str]] = ()) -> Iterator[str]:
    """Endless queries: in turn three to six neighbouring words of a text, which hardly ever repeat, and each list of
    questions in random order, once.
    """
    generator = random.Random(seed)
    asked = [iter(generator.sample(some, len(some))) for some in questions]
    for words in _pick_words(originals, generator):
        yield words
        yield from filter(None, [next(some, None) for some in asked])


def _pick_words(originals: Sequence[Document], generator: random.Random) -> Iterator[str]:
    for _ in itertools.count():
        words = generator.choice(originals).text.split()
        size = generator.randint(3, 6)
        start = generator.randrange(max(1, len(words) - size))
        if text := " ".join(words[start : start + size]).strip():
            yield text
