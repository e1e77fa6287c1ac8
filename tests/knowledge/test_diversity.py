"""Maximal marginal relevance, on vectors whose likeness is known."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import numpy as np

from app.knowledge.diversity import reorder
from app.knowledge.fusion import Candidate

A, B, C = (UUID(int=n) for n in (1, 2, 3))
VECTORS = {
    A: np.array([1.0, 0.0], np.float32),
    B: np.array([1.0, 0.0], np.float32),
    C: np.array([0.0, 1.0], np.float32),
}


def ranking() -> list[Candidate]:
    now = datetime.now(UTC)
    return [Candidate(i, now, score=s) for i, s in ((A, 1.0), (B, 0.9), (C, 0.5))]


def test_diversity_of_zero_keeps_the_order() -> None:
    assert [c.entry_id for c in reorder(ranking(), VECTORS, 0.0)] == [A, B, C]


def test_diversity_puts_a_copy_of_the_best_hit_behind_another() -> None:
    # B: 0.5 * 0.9 - 0.5 * 1 = -0.05; C: 0.5 * 0.5 - 0.5 * 0 = 0.25
    assert [c.entry_id for c in reorder(ranking(), VECTORS, 0.5)] == [A, C, B]


def test_diversity_leaves_scores_and_candidates_as_they_are() -> None:
    reordered = reorder(ranking(), VECTORS, 1.0)
    assert sorted((c.entry_id, c.score) for c in reordered) == [(A, 1.0), (B, 0.9), (C, 0.5)]


def test_diversity_treats_an_entry_without_a_vector_as_unlike_all() -> None:
    vectors = {i: v for i, v in VECTORS.items() if i != B}
    assert [c.entry_id for c in reorder(ranking(), vectors, 0.5)] == [A, B, C]


def test_diversity_of_nothing_is_nothing() -> None:
    assert reorder([], {}, 0.5) == []
