"""The results of each variant of the search over the same queries, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from app.contract.vocabulary import Fusion, Mode
from app.evaluation.metrics import METRICS, Estimate, Interval, Scores, estimate_means


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant of the search; `fusion` applies only to hybrid mode."""

    mode: Mode
    fusion: Fusion | None = None

    @property
    def label(self) -> str:
        """The name of the variant in reports."""
        return f"{self.mode} {self.fusion}" if self.fusion else self.mode


VARIANTS: tuple[Variant, ...] = (
    Variant("keyword"),
    Variant("semantic"),
    *(Variant("hybrid", fusion) for fusion in get_args(Fusion)),
)


@dataclass(frozen=True, slots=True)
class Run:
    """The results of one variant.

    Attributes:
        estimates: each metric with its interval, by name.
        median_seconds: median time of a search; None for a part of the queries.
        against_baseline: difference in nDCG@10 to BM25 by bm25s.
        against_better_leg: difference in nDCG@10 to the leg with the higher mean; None for this leg.
    """

    variant: Variant
    scores: Scores
    estimates: Mapping[str, Estimate]
    median_seconds: float | None = None
    against_baseline: Interval | None = None
    against_better_leg: Interval | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """The results of BM25 by bm25s on the same queries."""

    name: str
    scores: Scores
    estimates: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs over the same queries, in the order of the variants."""

    runs: Sequence[Run]
    baseline: Baseline | None


def find_better_leg(scores: Mapping[Variant, Scores]) -> Variant | None:
    """The leg with the higher mean nDCG@10; None unless both legs were measured."""
    legs = [variant for variant in scores if variant.mode != "hybrid"]
    return max(legs, key=lambda leg: scores[leg].means["ndcg@10"]) if len(legs) > 1 else None


def compare_runs(
    scores: Mapping[Variant, Scores],
    baseline: tuple[str, Scores] | None = None,
    median_seconds: Mapping[Variant, float] | None = None,
) -> Comparison:
    """Estimate every metric of every run and the differences, all with the same draws of queries."""
    better = find_better_leg(scores)
    columns: dict[tuple[object, str], Sequence[float]] = {}
    for variant, found in scores.items():
        columns |= {(variant, name): column for name, column in found.values.items()}
        if baseline is not None:
            columns[variant, "− baseline"] = _subtract(found, baseline[1])
        if better not in (None, variant):
            columns[variant, "− better leg"] = _subtract(found, scores[better])
    if baseline is not None:
        columns |= {(baseline[0], name): column for name, column in baseline[1].values.items()}
    table = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns.values()])
    estimates = dict(zip(columns, estimate_means(table), strict=True))

    def take(run: object) -> dict[str, Estimate]:
        return {name: estimates[run, name] for name in METRICS}

    def differ(variant: Variant, other: str) -> Interval | None:
        found = estimates.get((variant, other))
        return None if found is None else Interval(found.mean, found.low, found.high)

    return Comparison(
        [
            Run(
                variant,
                found,
                take(variant),
                median_seconds[variant] if median_seconds else None,
                against_baseline=differ(variant, "− baseline"),
                against_better_leg=differ(variant, "− better leg"),
            )
            for variant, found in scores.items()
        ],
        Baseline(*baseline, take(baseline[0])) if baseline is not None else None,
    )


def _subtract(ours: Scores, theirs: Scores) -> list[float]:
    return [a - b for a, b in zip(ours.ndcg, theirs.ndcg, strict=True)]
