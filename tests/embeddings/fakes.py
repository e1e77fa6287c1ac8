"""A provider that does as it is told, and a clock that moves only when asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.embeddings.models import resolve_model
from app.embeddings.provider import EmbeddingModel, Vector
from app.embeddings.providers.mock import MockProvider


class FakeClock:
    """Seconds that pass by `advance` and by `sleep`, which returns at once and is recorded."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class ScriptedProvider:
    """Raises the failures of its script call by call, then works; waits while `gate` is closed."""

    def __init__(self, *failures: Exception) -> None:
        self._mock = MockProvider(resolve_model("mock", dimensions=8))
        self.failures = list(failures)
        self.failures_after_success: list[Exception] = []
        self.queries: list[str] = []
        self.batches: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.cancelled = 0
        self.closed = False

    @property
    def model(self) -> EmbeddingModel:
        return self._mock.model

    async def embed_query(self, text: str) -> Vector:
        self.queries.append(text)
        await self._obey()
        return (await self._mock.embed_query(text)).copy()

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        self.queries += texts
        await self._obey()
        return [(await self._mock.embed_query(text)).copy() for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.batches.append(list(texts))
        await self._obey()
        return await self._mock.embed_documents(texts)

    def count_tokens(self, text: str) -> int:
        return self._mock.count_tokens(text)

    async def close(self) -> None:
        self.closed = True

    async def _obey(self) -> None:
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.failures:
            raise self.failures.pop(0)
        self.failures, self.failures_after_success = self.failures_after_success, []
