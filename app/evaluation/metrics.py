"""Quality metrics of a ranking, given the grades of its documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from app.knowledge.feedback.gain import ndcg

__all__ = ["METRICS", "Scores", "ndcg", "recall", "reciprocal_rank", "score_rankings"]

METRICS = ("ndcg@10", "recall@100", "mrr@10")


def recall(ranking: Sequence[str], grades: Mapping[str, float], k: int = 100) -> float:
    """Share of the relevant documents (grade above 0) among the first `k`; 0 when no document is relevant."""
    relevant = {document for document, grade in grades.items() if grade > 0}
    return len(relevant.intersection(ranking[:k])) / len(relevant) if relevant else 0.0


def reciprocal_rank(ranking: Sequence[str], grades: Mapping[str, float], k: int = 10) -> float:
    """1 / rank of the first relevant document, 0 if there is none among the first `k` (Voorhees, TREC-8, 1999)."""
    for rank, document in enumerate(ranking[:k], 1):
        if grades.get(document, 0.0) > 0:
            return 1 / rank
    return 0.0


@dataclass(frozen=True, slots=True)
class Scores:
    """The values of each metric, one per query in the order of the queries."""

    ndcg: Sequence[float]
    recall: Sequence[float]
    reciprocal_rank: Sequence[float]

    @property
    def means(self) -> dict[str, float]:
        """The metrics by name, averaged over the queries."""
        columns = (self.ndcg, self.recall, self.reciprocal_rank)
        return {name: fmean(c) for name, c in zip(METRICS, columns, strict=True)}


def score_rankings(rankings: Sequence[Sequence[str]], grades: Sequence[Mapping[str, float]]) -> Scores:
    """Score each query's ranking of document ids against its grades."""
    pairs = list(zip(rankings, grades, strict=True))
    return Scores(
        ndcg=[ndcg(r, g) for r, g in pairs],
        recall=[recall(r, g) for r, g in pairs],
        reciprocal_rank=[reciprocal_rank(r, g) for r, g in pairs],
    )
