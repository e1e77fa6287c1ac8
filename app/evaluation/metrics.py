"""Metrics of rankings, their intervals, the comparison of variants and with BM25."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from Stemmer import Stemmer

from app.contract.vocabulary import Fusion, Mode
from app.documents.language import detect_language
from app.evaluation.collection import Collection
from app.knowledge.feedback import ndcg
from app.knowledge.words import SNOWBALL

Ranking = Sequence[str]
Grades = Mapping[str, float]


def recall(ranking: Ranking, grades: Grades, k: int = 100) -> float:
    """Share of the relevant documents (grade above 0) among the first `k`; 0 when no document is relevant."""
    relevant = {document for document, grade in grades.items() if grade > 0}
    return len(relevant.intersection(ranking[:k])) / len(relevant) if relevant else 0.0


def reciprocal_rank(ranking: Ranking, grades: Grades, k: int = 10) -> float:
    """1 / rank of the first relevant document, 0 if there is none among the first `k` (Voorhees, TREC-8, 1999)."""
    for rank, document in enumerate(ranking[:k], 1):
        if grades.get(document, 0.0) > 0:
            return 1 / rank
    return 0.0


def success(ranking: Ranking, grades: Grades, k: int = 10) -> float:
    """1 if a relevant document is among the first `k`, else 0: "hit@k", and "recall-any@k" of some papers."""
    return float(any(grades.get(document, 0.0) > 0 for document in ranking[:k]))


METRICS: Mapping[str, Callable[[Ranking, Grades], float]] = {
    "ndcg@10": ndcg,
    "recall@100": recall,
    "mrr@10": reciprocal_rank,
    "recall@5": lambda ranking, grades: recall(ranking, grades, 5),
    "recall@10": lambda ranking, grades: recall(ranking, grades, 10),
    "hit@5": lambda ranking, grades: success(ranking, grades, 5),
    "hit@10": success,
    "answered": lambda ranking, _grades: float(bool(ranking)),
}
"""The metrics by name; `answered` is 1 for a query with any hit."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The values of each metric, one per query in the order of the queries."""

    values: Mapping[str, Sequence[float]]

    @property
    def ndcg(self) -> Sequence[float]:
        """nDCG@10 of each query."""
        return self.values["ndcg@10"]

    @property
    def means(self) -> dict[str, float]:
        """The metrics by name, averaged over the queries."""
        return {name: fmean(column) for name, column in self.values.items()}

    def select(self, places: Sequence[int]) -> Scores:
        """The scores of the queries at these places."""
        return Scores({name: [column[i] for i in places] for name, column in self.values.items()})


def score_rankings(rankings: Sequence[Ranking], grades: Sequence[Grades]) -> Scores:
    """Score each query's ranking of document ids against its grades."""
    pairs = list(zip(rankings, grades, strict=True))
    return Scores({name: [measure(r, g) for r, g in pairs] for name, measure in METRICS.items()})


RESAMPLES = 10_000
SEED = 20_240_601
CONFIDENCE = 0.95
_BLOCK = 500


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference, with the bounds of the middle 95 % of the resampled differences."""

    difference: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over queries, with the bounds of the middle 95 % of the resampled means."""

    mean: float
    low: float
    high: float


def compare_paired(ours: Sequence[float], theirs: Sequence[float], *, seed: int = SEED) -> Interval:
    """Compute the percentile bootstrap interval of mean(ours - theirs) over queries, with a fixed seed.

    Queries are drawn with replacement, with the same draw for both systems (Sakai, SIGIR 2006; Efron and Tibshirani,
    1993). Raises ValueError for empty input or unequal lengths.
    """
    if len(ours) != len(theirs) or not len(ours):
        raise ValueError("both systems need a value for each query, and at least one query")
    differences = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    (found,) = estimate_means(differences[:, np.newaxis], seed=seed)
    return Interval(found.mean, found.low, found.high)


def estimate_means(values: ArrayLike, *, seed: int = SEED) -> list[Estimate]:
    """Estimate the mean of each column of a table with a row for each query; all columns share the draws."""
    table: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    rows = len(table)
    generator = np.random.default_rng(seed)
    means = np.empty((RESAMPLES, table.shape[1]))
    # In blocks: 10,000 draws of 10,000 queries at once would take 800 MB.
    for start in range(0, RESAMPLES, _BLOCK):
        size = min(_BLOCK, RESAMPLES - start)
        draws = generator.integers(0, rows, size=(size, rows))
        draws += rows * np.arange(size)[:, np.newaxis]
        times_drawn = np.bincount(draws.ravel(), minlength=size * rows).reshape(size, rows)
        means[start : start + size] = times_drawn @ table / rows
    tail = (1 - CONFIDENCE) / 2
    lows, highs = np.quantile(means, (tail, 1 - tail), axis=0)
    return [
        Estimate(float(mean), float(low), float(high))
        for mean, low, high in zip(table.mean(axis=0), lows, highs, strict=True)
    ]


K1, B = 1.2, 0.75
# bm25s's short English list is Lucene's; the long one contains Snowball's, which Postgres uses, and a few of NLTK's.
_STOP_WORDS = {"english": "english_plus"}
_WITH_STOP_WORDS = frozenset({
    "danish", "dutch", "english", "french", "german", "italian", "norwegian", "portuguese", "russian", "spanish",
    "swedish", "turkish",
})  # fmt: skip


def is_baseline_installed() -> bool:
    """Whether bm25s, from the extra `eval`, is installed."""
    return importlib.util.find_spec("bm25s") is not None


def rank_by_bm25(collection: Collection, depth: int = 100) -> tuple[str, Sequence[Sequence[str]]]:
    """Rank by BM25 (Lucene's variant, k1 1.2, b 0.75), title and text as one field, with the stemmer and stop words of
    the most frequent language. Raises ImportError without bm25s."""
    import bm25s

    language = find_language(collection)
    stemmer = Stemmer(language) if language in SNOWBALL else None
    stop_words = _STOP_WORDS.get(language, language) if language in _WITH_STOP_WORDS else None

    def tokenize(texts: list[str]) -> object:
        return bm25s.tokenize(texts, stopwords=stop_words, stemmer=stemmer, show_progress=False)

    index = bm25s.BM25(method="lucene", k1=K1, b=B)
    index.index(tokenize([d.whole for d in collection.documents]), show_progress=False)
    places, scores = index.retrieve(
        tokenize([q.text for q in collection.queries]), k=min(depth, len(collection.documents)), show_progress=False
    )
    ids = [d.id for d in collection.documents]
    rankings = [
        [ids[place] for place, score in zip(row, row_scores, strict=True) if score > 0]
        for row, row_scores in zip(places, scores, strict=True)
    ]
    return f"bm25s (lucene, k1 {K1}, b {B}, {language})", rankings


def find_language(collection: Collection, sample: int = 100) -> str:
    """Detect the most frequent language in an even sample of the documents."""
    step = max(1, len(collection.documents) // sample)
    votes = Counter(detect_language(d.text) for d in collection.documents[::step])
    return votes.most_common(1)[0][0]


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


def compare_runs(
    scores: Mapping[Variant, Scores],
    baseline: tuple[str, Scores] | None = None,
    median_seconds: Mapping[Variant, float] | None = None,
) -> Comparison:
    """Estimate every metric of every run and the differences, all with the same draws of queries."""
    legs = [variant for variant in scores if variant.mode != "hybrid"]
    better = max(legs, key=lambda leg: scores[leg].means["ndcg@10"]) if len(legs) > 1 else None
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
