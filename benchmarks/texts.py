"""Texts for a database of any size: paragraphs of the shared collections if they exist, otherwise generated ones."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

from app.evaluation.collection import Document, read_collection
from benchmarks.place import COLLECTIONS

SOURCES = ("squad-dev", "scifact")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_SYLLABLES = ["ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "ne", "pi", "ra", "se", "to", "vu"]


def read_texts(count: int) -> list[Document]:
    """Real paragraphs, at most `count`; generated ones if the shared collections are missing."""
    found: list[Document] = []
    for name in SOURCES:
        if (COLLECTIONS / name).is_dir() and len(found) < count:
            found += read_collection(COLLECTIONS / name).documents
    return found[:count] or list(_invent_texts(min(count, 300)))


def vary_text(original: Document, other: Document, generator: random.Random) -> str:
    """The sentences of a text in another order, with a third of them replaced by sentences of another text."""
    own = _SENTENCE.split(original.text)
    foreign = _SENTENCE.split(other.text)
    generator.shuffle(own)
    replaced = len(own) // 3 + 1
    own[:replaced] = generator.sample(foreign, min(len(foreign), replaced))
    return " ".join(own)


def make_queries(originals: Sequence[Document], seed: int) -> Iterator[str]:
    """Endless queries: three to six neighbouring words of a text, which hardly ever repeat."""
    generator = random.Random(seed)
    while True:
        words = generator.choice(originals).text.split()
        size = generator.randint(3, 6)
        start = generator.randrange(max(1, len(words) - size))
        if text := " ".join(words[start : start + size]).strip():
            yield text


def _invent_texts(count: int, seed: int = 0) -> Iterator[Document]:
    """Sentences of generated words whose frequencies follow Zipf's law, like those of real texts."""
    generator = random.Random(seed)
    words = ["".join(generator.choices(_SYLLABLES, k=generator.randint(1, 4))) for _ in range(8_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    for number in range(count):
        sentences = [
            " ".join(generator.choices(words, weights, k=generator.randint(8, 20))).capitalize() + "."
            for _ in range(generator.randint(3, 8))
        ]
        yield Document(f"made-up-{number}", None, " ".join(sentences))
