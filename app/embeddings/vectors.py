"""Checks and normalises vectors that come from callers and providers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.embeddings.provider import Vector
from app.errors import EmbeddingUnavailable


def make_unit_vector(numbers: Sequence[float]) -> Vector:
    """A caller's own embedding, finite and not all zero, as a unit vector."""
    vector = np.asarray(numbers, dtype=np.float64)
    # Scaled by the largest component, so that the norm of extreme numbers neither overflows nor underflows.
    vector = vector / np.abs(vector).max()
    unit: Vector = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


def check_vectors(provider: str, rows: object, count: int, dimensions: int) -> list[Vector]:
    """Convert a provider's numbers to `count` unit vectors of `dimensions` each, or refuse all of them.

    Raises EmbeddingUnavailable for a wrong count, a wrong dimension (permanent), anything that is not a
    number, and vectors that are not finite or have no length.
    """
    if not isinstance(rows, list) or len(rows) != count:
        given = f"{len(rows)} vectors" if isinstance(rows, list) else "no list of vectors"
        raise EmbeddingUnavailable(provider, f"{given} for {count} texts")
    for row in rows:
        if not isinstance(row, list):
            raise EmbeddingUnavailable(provider, "malformed answer")
        if len(row) != dimensions:
            raise EmbeddingUnavailable(
                provider, f"vectors of {len(row)} dimensions instead of {dimensions}", permanent=True
            )
    try:
        matrix = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise EmbeddingUnavailable(provider, "malformed answer") from None
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not (np.isfinite(matrix).all() and np.isfinite(lengths).all() and lengths.all()):
        raise EmbeddingUnavailable(provider, "vectors that are not finite or have no length")
    unit = (matrix / lengths).astype(np.float32)
    unit.setflags(write=False)
    return list(unit)
