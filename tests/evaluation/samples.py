"""A judged collection small enough to check by hand."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from app.evaluation.collection import Collection, Document, Query
from benchmarks.corpus.stock import Stock
from benchmarks.texts import Library
from tests.fixtures.database.cluster import MODEL

TEXTS = [
    "Engineers measure how pressure waves travel through long pipes made of steel.",
    "A cook explains why bread needs to rest before it goes into the oven.",
    "Pipes, pipes and more pipes: the plumber has seen nothing else all week.",
    "The committee postponed its decision about the new library building.",
    "Migrating birds cross the desert at night, when the air is cool.",
    "Her grandmother kept bees behind the house and sold honey at the market.",
    "The museum shows paintings from three centuries on two floors.",
    "A slow train takes four hours for a journey of ninety kilometres.",
    "Salt keeps the road free of ice, but harms the trees next to it.",
    "The violin was repaired with a glue made after an old recipe.",
]


def make_tiny_collection() -> Collection:
    """Ten documents d0 to d9 and three judged queries, one of them without a match."""
    queries = [
        Query("q1", "pipes", {"d0": 2, "d2": 0}),
        Query("q2", "baking in an oven", {"d1": 1}),
        Query("q3", "quantum chromodynamics", {"d7": 1}),
    ]
    documents = [Document(f"d{n}", None, text) for n, text in enumerate(TEXTS)]
    return Collection("tiny", "qrels.tsv", documents, queries, skipped=0, judged=3)


ORIGINALS = [
    Document("a", "First", "One sentence here. Another sentence there. And a third one at last."),
    Document("b", None, "Water boils at a hundred degrees. Ice melts at none. Steam rises."),
]


def make_stock(texts: Sequence[str] = TEXTS) -> Stock:
    """The benchmark's texts, with vectors by chance."""
    vectors = np.random.default_rng(1).standard_normal((len(texts), MODEL.dimensions)).astype(np.float32)
    documents = [Document(str(number), None, text) for number, text in enumerate(texts)]
    return Stock(Library(documents), vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


@contextmanager
def hide_progress(_label: str, _total: int) -> Iterator[Callable[[int], None]]:
    """Show no progress."""
    yield lambda _done: None
