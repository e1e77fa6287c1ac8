"""The share of the nearest entries that a contender finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.embeddings.provider import Vector
from benchmarks.contender import Contender, Question
from benchmarks.corpus.stock import is_rare

DEPTH = 10
CERTAIN = 1e-3
"""Half precision may round a cosine of this size below zero; the service then omits the entry."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The vectors of a tenant's entries, one in each row, and which entries have the tag RARE."""

    vectors: NDArray[np.float32]
    rare: NDArray[np.int64]

    @classmethod
    def of(cls, vectors: NDArray[np.float32]) -> Truth:
        """The truth about a tenant whose entries have the numbers of the rows."""
        return cls(vectors, np.array([n for n in range(len(vectors)) if is_rare(n)], dtype=np.int64))

    def nearest(self, vector: Vector, rare: bool) -> Sequence[int]:
        """The numbers of up to ten entries with the greatest positive cosine, best first."""
        cosines = (self.vectors[self.rare] if rare else self.vectors) @ vector
        best = [n for n in np.argsort(-cosines, kind="stable")[:DEPTH].tolist() if cosines[n] >= CERTAIN]
        return self.rare[best].tolist() if rare else best


@dataclass(frozen=True, slots=True)
class Recall:
    """Over several queries: the share of the ten nearest entries that were found, and the number of missing
    hits.

    `missing` counts the hits that exist, up to ten for each query, but did not come back.
    """

    contender: str
    size: int
    rare: bool
    recall: float
    missing: int
    questions: int


async def measure_recall(
    contender: Contender, questions: Sequence[Question], truth: Truth, rare: bool
) -> Recall | None:
    """Send every query; None for a contender that has no semantic-only search."""
    if contender.nearest is None:
        return None
    found, there, missing = 0, 0, 0
    for question in questions:
        assert question.vector is not None
        expected = truth.nearest(question.vector, rare)
        answer = await contender.nearest(question, rare)
        found += len(set(expected) & set(answer[:DEPTH]))
        there += len(expected)
        missing += max(0, len(expected) - len(set(answer)))
    share = found / there if there else 1.0
    return Recall(contender.name, len(truth.vectors), rare, share, missing, len(questions))
