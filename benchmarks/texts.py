"""Texts for a database of any size: paragraphs of the shared collections where they are, else made-up ones."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from app.evaluation.collection import Document, read_collection
from benchmarks.place import COLLECTIONS

SOURCES = ("squad-dev", "scifact")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_SYLLABLES = ["ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "ne", "pi", "ra", "se", "to", "vu"]


def read_texts(count: int) -> list[Document]:
    """Real paragraphs, at most `count`; made-up ones where the shared collections are absent."""
    found: list[Document] = []
    for name in SOURCES:
        if (COLLECTIONS / name).is_dir() and len(found) < count:
            found += read_collection(COLLECTIONS / name).documents
    return found[:count] or list(_invent_texts(min(count, 300)))


def vary_texts(originals: list[Document], count: int, seed: int = 0) -> Iterator[tuple[Document, Document]]:
    """`count` distinct documents, each with the original that it resembles: the originals first.

    A variation has the sentences of its original in another order, some of them replaced by another's.
    """
    generator = random.Random(seed)
    for number in range(count):
        original = originals[number % len(originals)]
        if number < len(originals):
            yield original, original
            continue
        own = _SENTENCE.split(original.text)
        other = _SENTENCE.split(generator.choice(originals).text)
        generator.shuffle(own)
        own[: len(own) // 3 + 1] = generator.sample(other, min(len(other), len(own) // 3 + 1))
        yield Document(f"{original.id}-{number}", original.title, " ".join(own)), original


def make_queries(originals: list[Document], seed: int) -> Iterator[str]:
    """Endless questions: three to six neighbouring words of a text, hardly ever the same twice."""
    generator = random.Random(seed)
    while True:
        words = generator.choice(originals).text.split()
        size = generator.randint(3, 6)
        start = generator.randrange(max(1, len(words) - size))
        if text := " ".join(words[start : start + size]).strip():
            yield text


def _invent_texts(count: int, seed: int = 0) -> Iterator[Document]:
    """Sentences of made-up words whose frequencies follow Zipf's law, as those of real texts do."""
    generator = random.Random(seed)
    words = ["".join(generator.choices(_SYLLABLES, k=generator.randint(1, 4))) for _ in range(8_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    for number in range(count):
        sentences = [
            " ".join(generator.choices(words, weights, k=generator.randint(8, 20))).capitalize() + "."
            for _ in range(generator.randint(3, 8))
        ]
        yield Document(f"made-up-{number}", None, " ".join(sentences))
