"""Test whether a difference between two rankings is significant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
SEED = 20_240_601
_BLOCK = 500


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference, with the bounds of the middle 95 % of the resampled differences."""

    difference: float
    low: float
    high: float


def compare_paired(
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    confidence: float = 0.95,
) -> Interval:
    """Compute the percentile bootstrap interval of mean(ours - theirs) over queries, with a fixed seed.

    Queries are drawn with replacement, with the same draw for both systems (Sakai, SIGIR 2006; Efron and Tibshirani,
    1993). Raises ValueError for empty input or unequal lengths.
    """
    differences = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    if len(ours) != len(theirs) or not len(ours):
        raise ValueError("both systems need a value for each query, and at least one query")
    generator = np.random.default_rng(seed)
    means = np.empty(resamples)
    # In blocks: 10,000 draws of 10,000 queries at once would take 800 MB.
    for start in range(0, resamples, _BLOCK):
        size = min(_BLOCK, resamples - start)
        draws = generator.integers(0, len(differences), size=(size, len(differences)))
        means[start : start + size] = differences[draws].mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return Interval(float(differences.mean()), float(low), float(high))
