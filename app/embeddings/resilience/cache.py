"""A small cache of query embeddings. Documents and results are never cached."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from app.concurrency.stopwatch import Stopwatch, current_stopwatch, run_stopwatch
from app.embeddings.provider import EmbeddingProvider, Vector
from app.telemetry.metrics import QUERY_CACHE

asking_tenant: ContextVar[UUID | None] = ContextVar("asking_tenant", default=None)
"""The tenant that queries are embedded for. A vector cached for one tenant is not used for another, which could
otherwise infer from response times what other tenants have searched for."""

TENANTS = 200
"""Most tenants with cached queries. Up to this many, active within the time to live, do not affect each other: one more
takes the place of the tenant whose last query was the longest ago. At 50 queries of 1,536 numbers, that is 61 MB."""

_Key = tuple[UUID | None, str, str, int, str]


_Vectors = OrderedDict[_Key, tuple[float, Vector]]


@dataclass(slots=True)
class _Flight:
    """A call in progress, its stopwatch, and the number of its waiters."""

    task: asyncio.Task[Vector]
    stopwatch: Stopwatch
    waiters: int = 0


class QueryCache:
    """EmbeddingProvider that caches the last queries for a short time.

    Each tenant (`asking_tenant`) has its own cache with `entries` places; TENANTS bounds the memory. Concurrent equal
    queries of a tenant share one call, which is cancelled only when all of its waiters are. `hits` counts queries
    answered without a separate call, `misses` the others.
    """

    def __init__(
        self,
        inner: EmbeddingProvider,
        *,
        entries: int = 50,
        ttl: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.inner: Final = inner
        self.model: Final = inner.model
        self._entries = entries
        self._ttl = ttl
        self._clock = clock
        self._vectors: OrderedDict[UUID | None, _Vectors] = OrderedDict()
        self._flights: dict[_Key, _Flight] = {}
        self._hits, self._misses = (QUERY_CACHE.labels(inner.model.provider, each) for each in ("hit", "miss"))
        self.hits = 0
        self.misses = 0

    def recall(self, text: str) -> Vector | None:
        """The vector of a query if it is in the cache, without waiting."""
        remembered = self._find(self._key(text))
        if remembered is not None:
            self._count(1, 0)
        return remembered

    async def embed_query(self, text: str) -> Vector:
        remembered = self.recall(text)
        if remembered is not None:
            return remembered
        key = self._key(text)
        flight = self._flights.get(key)
        self._count(int(flight is not None), int(flight is None))
        if flight is None:
            flight = self._start(key, text)
        return await self._join(key, flight)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """As `embed_query` for each; all queries that are not in the cache share one call."""
        keys = {text: self._key(text) for text in texts}
        found = {text: vector for text, key in keys.items() if (vector := self._find(key)) is not None}
        missing = [text for text in keys if text not in found]
        self._count(len(texts) - len(missing), len(missing))
        if missing:
            made = await self.inner.embed_queries(missing)
            found |= {t: self._remember(keys[t], v) for t, v in zip(missing, made, strict=True)}
        return [found[text] for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return await self.inner.embed_documents(texts)

    def count_tokens(self, text: str) -> int:
        return self.inner.count_tokens(text)

    async def close(self) -> None:
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._vectors.clear()
        await self.inner.close()

    def _count(self, hits: int, misses: int) -> None:
        self.hits += hits
        self.misses += misses
        self._hits.inc(hits)
        self._misses.inc(misses)

    def _key(self, text: str) -> _Key:
        model = self.model
        return asking_tenant.get(), model.provider, model.name, model.dimensions, text

    def _find(self, key: _Key) -> Vector | None:
        own = self._vectors.get(key[0])
        entry = own.get(key) if own is not None else None
        if own is None or entry is None:
            return None
        expires_at, vector = entry
        if self._clock() >= expires_at:
            del own[key]
            return None
        own.move_to_end(key)
        self._vectors.move_to_end(key[0])
        return vector

    def _start(self, key: _Key, text: str) -> _Flight:
        with run_stopwatch(Stopwatch()) as stopwatch:
            flight = _Flight(asyncio.create_task(self._fetch(key, text)), stopwatch)
        self._flights[key] = flight
        flight.task.add_done_callback(lambda _: self._land(key, flight))
        return flight

    async def _fetch(self, key: _Key, text: str) -> Vector:
        return self._remember(key, await self.inner.embed_query(text))

    def _remember(self, key: _Key, vector: Vector) -> Vector:
        vector.setflags(write=False)
        own = self._vectors.setdefault(key[0], OrderedDict())
        self._vectors.move_to_end(key[0])
        own[key] = (self._clock() + self._ttl, vector)
        own.move_to_end(key)
        if len(own) > self._entries:
            own.popitem(last=False)
        if len(self._vectors) > TENANTS:
            self._vectors.popitem(last=False)
        return vector

    async def _join(self, key: _Key, flight: _Flight) -> Vector:
        flight.waiters += 1
        try:
            with current_stopwatch().joining(flight.stopwatch):
                return await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if flight.waiters == 0 and not flight.task.done():
                self._drop(key, flight)  # no waiter may join a call that is being cancelled
                flight.task.cancel()

    def _land(self, key: _Key, flight: _Flight) -> None:
        self._drop(key, flight)
        if not flight.task.cancelled():
            flight.task.exception()  # retrieved even if no waiter is left

    def _drop(self, key: _Key, flight: _Flight) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
