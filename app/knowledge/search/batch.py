"""Embed the queries of several searches in one call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from app.concurrency.stopwatch import Stopwatch, current_stopwatch, run_stopwatch
from app.embeddings.provider import EmbeddingProvider, InputRefused, Vector


class QueryBatch:
    """Embeds several queries in one call, which starts at the first request for a vector."""

    def __init__(self, provider: EmbeddingProvider, texts: Sequence[str]) -> None:
        self._provider = provider
        self._texts = list(dict.fromkeys(texts))
        self._call: asyncio.Task[dict[str, Vector]] | None = None
        self._stopwatch = Stopwatch()

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of one of the queries. Raises EmbeddingUnavailable."""
        if self._call is None:
            with run_stopwatch(self._stopwatch):
                self._call = asyncio.create_task(self._embed_all())
        try:
            with current_stopwatch().joining(self._stopwatch):
                return (await asyncio.shield(self._call))[text]
        except InputRefused:
            # One refused text must not keep the other queries from being embedded.
            return await self._provider.embed_query(text)

    async def close(self) -> None:
        """Cancel the call if it is still running."""
        if self._call is not None:
            self._call.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._call

    async def _embed_all(self) -> dict[str, Vector]:
        vectors = await self._provider.embed_queries(self._texts)
        return dict(zip(self._texts, vectors, strict=True))
