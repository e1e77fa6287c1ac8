"""Threads for models in this process: a lane for queries and one for documents. Tenants take turns."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from app.concurrency.processes.part import Part
from app.concurrency.turns import Turns
from app.embeddings.provider import EmbeddingProvider, Vector
from app.embeddings.resilience.cache import asking_tenant
from app.embeddings.resilience.resilient import SECONDS_PER_QUERY
from app.errors import EmbeddingUnavailable

# Measured on two cores with two busy document threads: a query takes 9 ms with this niceness, 25 ms without it.
_DOCUMENT_NICENESS = 10


class ComputeLanes:
    """Runs an embedding function in threads, so that no query waits for documents.

    Documents are submitted text by text: concurrent calls share the lane fairly, and a cancelled call stops
    before its next text. On Linux the document threads run at a lower priority.
    """

    def __init__(self, query_threads: int, document_threads: int) -> None:
        self.query_threads = query_threads
        self._document_threads = document_threads
        self._queries = ThreadPoolExecutor(query_threads, "embed-query")
        self._documents = ThreadPoolExecutor(document_threads, "embed-document", _lower_priority)

    async def run_query(self, embed: Callable[[str], Vector], text: str) -> Vector:
        """Embed one text in the query lane."""
        return await asyncio.get_running_loop().run_in_executor(self._queries, embed, text)

    async def run_documents(self, embed: Callable[[str], Vector], texts: Sequence[str]) -> list[Vector]:
        """Embed texts one by one in the document lane and keep their order."""
        loop = asyncio.get_running_loop()
        vectors: dict[int, Vector] = {}
        remaining = iter(range(len(texts)))

        async def drain() -> None:
            for position in remaining:
                vectors[position] = await loop.run_in_executor(self._documents, embed, texts[position])

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._document_threads, len(texts))):
                    group.create_task(drain())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [vectors[position] for position in range(len(texts))]

    def close(self) -> None:
        """Drop waiting texts; a computation in progress runs to its end."""
        self._queries.shutdown(wait=False, cancel_futures=True)
        self._documents.shutdown(wait=False, cancel_futures=True)


def _lower_priority() -> None:
    if sys.platform == "linux":  # on other systems the call would affect the whole process
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _DOCUMENT_NICENESS)


class QueryQueue:
    """EmbeddingProvider that embeds `places` queries at a time; the tenants (`asking_tenant`) take turns.

    It wraps the time limits and the circuit: waiting for the tenant's other queries does not count as a failure of the
    model, and one tenant's waiting does not affect the others. With several places, no tenant has more than half of
    them, so that a short query finds a place while another tenant runs long ones. Documents are not queued.
    """

    def __init__(self, inner: EmbeddingProvider, places: int, patience: float, part: Part | None = None) -> None:
        """`patience` is in seconds; a query without a turn by then is refused.

        With `part`, the half of the places that a tenant can have is that of all processes of the service together.
        """
        self.inner: Final = inner
        self.model: Final = inner.model
        self._turns = Turns(places, common=None if part is None else part.amounts("queries"))
        self._most_here = max(1, places // 2)
        self._most = self._most_here if part is None else max(1, places * part.processes // 2)
        self._patience = patience

    async def embed_query(self, text: str) -> Vector:
        """As the provider. Raises EmbeddingUnavailable also for a query without a turn in time."""
        return await self._embed(text, asyncio.get_running_loop().time() + self._patience)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """Embed one after another, like a model in this process; other queries take turns with these."""
        patience = self._patience + SECONDS_PER_QUERY * (len(texts) - 1)
        deadline = asyncio.get_running_loop().time() + patience
        return [await self._embed(text, deadline) for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return await self.inner.embed_documents(texts)

    def count_tokens(self, text: str) -> int:
        return self.inner.count_tokens(text)

    async def close(self) -> None:
        await self.inner.close()

    async def _embed(self, text: str, deadline: float) -> Vector:
        tenant = asking_tenant.get()
        try:
            async with asyncio.timeout_at(deadline):
                await self._turns.acquire(tenant, most=self._most, most_here=self._most_here)
        except TimeoutError:
            raise EmbeddingUnavailable(
                self.model.provider, "too many queries of the tenant are waiting", attempts=0, retry_after=1.0
            ) from None
        try:
            return await self.inner.embed_query(text)
        finally:
            self._turns.release(tenant)
