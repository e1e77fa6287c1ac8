"""Evaluations and reports with known figures."""

from dataclasses import replace
from datetime import UTC, datetime

from app.embeddings.provider import resolve_model
from app.evaluation.evaluation import Evaluation, Group
from app.evaluation.metrics import METRICS, Scores, Variant, compare_runs
from app.evaluation.report import Report
from app.knowledge.search.plan import SearchDefaults
from tests.evaluation.samples import make_tiny_collection


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
