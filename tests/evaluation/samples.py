"""Small collections, stocks of texts, and evaluations and reports with known figures."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from app.embeddings.provider import resolve_model
from app.evaluation.collection import Collection, Document, Query
from app.evaluation.evaluation import Evaluation, Group
from app.evaluation.metrics import METRICS, Scores, Variant, compare_runs
from app.evaluation.report import Report
from app.knowledge.search.plan import SearchDefaults
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


def score(*ndcg: float) -> Scores:
    """Scores with these values of nDCG@10, and 1 for each other metric."""
    return Scores({name: list(ndcg) if name == "ndcg@10" else [1.0] * len(ndcg) for name in METRICS})


def make_evaluation(name: str = "tiny", hybrid: float = 0.9) -> Evaluation:
    """An evaluation in which the keyword leg has 0.4, the semantic leg 0.3 and the fusion `hybrid`."""
    scores = {
        Variant("keyword"): score(0.5, 0.7, 0.0),
        Variant("semantic"): score(0.2, 0.4, 0.3),
        Variant("hybrid", "rrf"): score(hybrid, hybrid, hybrid),
    }
    seconds = dict(zip(scores, (0.0042, 0.008, 0.01), strict=True))
    baseline = ("bm25s", score(0.6, 0.6, 0.0))
    whole = compare_runs(scores, baseline, seconds)
    first = compare_runs({v: s.select([0]) for v, s in scores.items()}, ("bm25s", score(0.6)))
    group = Group(first.runs, first.baseline, "first", 1)
    collection = replace(make_tiny_collection(), name=name, ignored={"adversarial": 2})
    return Evaluation(whole.runs, whole.baseline, collection, {"fill": 1.5}, [group])


def make_report(*evaluations: Evaluation) -> Report:
    return Report(
        evaluations,
        resolve_model("mock"),
        SearchDefaults(),
        server="18.6",
        made_at=datetime(2025, 3, 1, 12, 30, tzinfo=UTC),
    )
