"""A provider that works until it is told otherwise, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from app.embeddings.failures import InputRefused
from app.embeddings.provider import EmbeddingModel, Vector
from app.embeddings.providers.mock import MockProvider
from app.errors import EmbeddingUnavailable


class FailingProvider:
    """EmbeddingProvider with the mock's vectors.

    Attributes:
        down: while true, every call raises EmbeddingUnavailable.
        delay: seconds that each call takes.
        documents: every text that was embedded as a document, in order.
        queries: every text that was embedded as a query.
        calls: the texts of each call for several queries.
        vectors: texts whose vectors are given, in place of the mock's.
        default: vector of every other text, in place of the mock's.
        error: raised by every call in place of EmbeddingUnavailable.
        entered: set when a call that `hold_next_call` announced has begun.
        refused: texts for which a call for several raises InputRefused.
    """

    def __init__(self, model: EmbeddingModel) -> None:
        self._mock = MockProvider(model)
        self.down = False
        self.delay = 0.0
        self.documents: list[str] = []
        self.queries: list[str] = []
        self.calls: list[list[str]] = []
        self.vectors: dict[str, Vector] = {}
        self.default: Vector | None = None
        self.error: Exception | None = None
        self.refused: set[str] = set()
        self.closed = False
        self.entered = asyncio.Event()
        self._held: asyncio.Event | None = None

    @property
    def model(self) -> EmbeddingModel:
        return self._mock.model

    def direction(self, *coordinates: float) -> Vector:
        """A unit vector whose first coordinates are given."""
        vector = np.zeros(self.model.dimensions, dtype=np.float32)
        vector[: len(coordinates)] = coordinates
        unit: Vector = (vector / np.linalg.norm(vector)).astype(np.float32)
        return unit

    async def embed_query(self, text: str) -> Vector:
        self.queries.append(text)
        await self._obey()
        return await self._vector(text)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        self.calls.append(list(texts))
        self.queries += texts
        await self._obey()
        if not self.refused.isdisjoint(texts):
            raise InputRefused(self.model.provider, "told to refuse")
        return [await self._vector(text) for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        await self._obey()
        if not self.refused.isdisjoint(texts):
            raise InputRefused(self.model.provider, "told to refuse")
        self.documents += texts
        return [await self._vector(text) for text in texts]

    def count_tokens(self, text: str) -> int:
        return self._mock.count_tokens(text)

    async def close(self) -> None:
        self.closed = True

    async def _vector(self, text: str) -> Vector:
        given = self.vectors.get(text, self.default)
        return given if given is not None else await self._mock.embed_query(text)

    def hold_next_call(self) -> asyncio.Event:
        """Make the next call wait until the event that is returned is set, and then succeed."""
        self.entered.clear()
        self._held = asyncio.Event()
        return self._held

    async def _obey(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self.entered.set()
            await held.wait()
            return
        await asyncio.sleep(self.delay)
        if self.error is not None:
            raise self.error
        if self.down:
            raise EmbeddingUnavailable(self.model.provider, "told to fail", attempts=3)
