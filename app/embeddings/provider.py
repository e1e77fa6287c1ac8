"""The interface of embedding providers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""One embedding: float32, shape (dimensions,), L2-normalised."""


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """The model that computes the vectors, and its figures.

    Attributes:
        provider: `local`, `openai`, `gemini` or `mock`.
        name: the model's name, e.g. `all-MiniLM-L6-v2-int8`.
        dimensions: length of a vector.
        max_tokens: longest input, in the model's tokens; longer text must be embedded in passages.
        similarity_threshold: default cosine below which a passage does not count as similar.
    """

    provider: str
    name: str
    dimensions: int
    max_tokens: int
    similarity_threshold: float


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
