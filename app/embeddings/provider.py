"""The interface of embedding providers, the checks of their vectors, and the errors of remote ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.contract.models import ModelInfo
from app.errors import EmbeddingUnavailable
from app.resilience import read_status

Vector = NDArray[np.float32]
"""One embedding: float32, shape (dimensions,), L2-normalised."""


@dataclass(frozen=True, slots=True)
class EmbeddingModel(ModelInfo):
    """The model that computes the vectors, and its figures.

    Attributes:
        max_tokens: longest input, in the model's tokens; longer text must be embedded in passages.
        similarity_threshold: default cosine below which a passage does not count as similar.
    """

    max_tokens: int
    similarity_threshold: float

    @property
    def info(self) -> ModelInfo:
        """The model without its figures, as callers see it."""
        return ModelInfo(self.provider, self.name, self.dimensions)


class EmbeddingProvider(Protocol):
    """Turns text into vectors. Safe for concurrent use in one event loop."""

    @property
    def model(self) -> EmbeddingModel: ...

    async def embed_query(self, text: str) -> Vector:
        """Embed a search query. Raises EmbeddingUnavailable."""
        ...

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """Embed several search queries in one call, in order. Raises EmbeddingUnavailable."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed any number of stored texts, in order. Raises EmbeddingUnavailable."""
        ...

    def count_tokens(self, text: str) -> int:
        """Length of `text` in the model's tokens (an upper estimate if the tokenizer is remote)."""
        ...

    async def close(self) -> None:
        """Release connections and threads."""
        ...


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


class InputRefused(EmbeddingUnavailable):
    """The provider works but refuses this text; other texts are not affected."""

    input_refused = True

    def __init__(self, provider: str, reason: str, *, attempts: int = 1) -> None:
        super().__init__(provider, reason, attempts=attempts, permanent=True)


def describe_status(
    provider: str, status: int, headers: Mapping[str, str], *, key_rejected: bool = False
) -> EmbeddingUnavailable:
    """The error for an HTTP status."""
    failure = read_status(status, headers, key_rejected=key_rejected)
    if failure.input_refused:
        return InputRefused(provider, failure.reason)
    return EmbeddingUnavailable(provider, failure.reason, retry_after=failure.retry_after, permanent=failure.permanent)
