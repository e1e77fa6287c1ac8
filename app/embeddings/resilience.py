"""What wraps a provider: retries and circuits, the threads and the queue of models in this process, and a cache."""

import asyncio
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal
from uuid import UUID

from app.concurrency.part import Part
from app.concurrency.stopwatch import Stopwatch, current_stopwatch, run_stopwatch
from app.concurrency.turns import Turns
from app.embeddings.provider import (
    BatchLimits,
    EmbeddingProvider,
    ProviderWrapper,
    Vector,
    approximate_tokens,
    split_batches,
)
from app.errors import EmbeddingUnavailable
from app.resilience import CHECK_TEXT, REAL_TIME, CallBudget, CallPolicy, Calls, Timing
from app.telemetry.metrics import QUERY_CACHE

SECONDS_PER_QUERY = 0.1
"""Seconds that each further query of a call adds to its time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResiliencePolicy(CallPolicy):
    """How hard to try. Documents are sent in batches within `batch`, each with a separate budget."""

    query: CallBudget = field(default_factory=lambda: CallBudget(timeout=2.0, first_delay=0.1))
    documents: CallBudget = field(default_factory=lambda: CallBudget(timeout=60.0, first_delay=1.0))
    batch: BatchLimits = field(default_factory=lambda: BatchLimits(texts=64))


class ResilientProvider(ProviderWrapper):
    """EmbeddingProvider that retries calls of another one within a time limit, and stops calling it when it is down.

    Queries and documents have separate circuits, so that a bulk load over its rate limit does not stop searches.
    Every failure is raised as EmbeddingUnavailable with the number of tries, which is 0 while the circuit is open.
    """

    def __init__(
        self, inner: EmbeddingProvider, policy: ResiliencePolicy | None = None, timing: Timing = REAL_TIME
    ) -> None:
        super().__init__(inner)
        self._policy = policy or ResiliencePolicy()

        def make_calls(operation: Literal["query", "documents"], check: Callable[[], Awaitable[object]]) -> Calls:
            return Calls(
                operation,
                inner.model.provider,
                inner.model.name,
                EmbeddingUnavailable,
                self._policy,
                check=check,
                patience=self._policy.query.timeout,
                timing=timing,
            )

        self._queries = make_calls("query", lambda: inner.embed_query(CHECK_TEXT))
        self._documents = make_calls("documents", lambda: inner.embed_documents([CHECK_TEXT]))
        self.query_circuit: Final = self._queries.circuit
        self.document_circuit: Final = self._documents.circuit

    async def embed_query(self, text: str) -> Vector:
        return await self._queries.run(
            lambda: self.inner.embed_query(text), self._policy.query, texts=1, tokens=approximate_tokens((text,))
        )

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        # A model in this process computes one text after another.
        timeout = self._policy.query.timeout + SECONDS_PER_QUERY * (len(texts) - 1)
        return await self._queries.run(
            lambda: self.inner.embed_queries(texts),
            replace(self._policy.query, timeout=timeout),
            texts=len(texts),
            tokens=approximate_tokens(texts),
        )

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        vectors: list[Vector] = []
        for batch in split_batches(texts, self._policy.batch, self.inner.count_tokens):
            vectors += await self._documents.run(
                partial(self.inner.embed_documents, batch),
                self._policy.documents,
                texts=len(batch),
                tokens=approximate_tokens(batch),
            )
        return vectors


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


class QueryCache(ProviderWrapper):
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
        super().__init__(inner)
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

    async def close(self) -> None:
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._vectors.clear()
        await super().close()

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
        async def fetch() -> Vector:
            return self._remember(key, await self.inner.embed_query(text))

        with run_stopwatch(Stopwatch()) as stopwatch:
            flight = _Flight(asyncio.create_task(fetch()), stopwatch)
        self._flights[key] = flight
        flight.task.add_done_callback(lambda _: self._land(key, flight))
        return flight

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


class QueryQueue(ProviderWrapper):
    """EmbeddingProvider that embeds `places` queries at a time; the tenants (`asking_tenant`) take turns.

    It wraps the time limits and the circuit: waiting for the tenant's other queries does not count as a failure of the
    model, and one tenant's waiting does not affect the others. With several places, no tenant has more than half of
    them, so that a short query finds a place while another tenant runs long ones. Documents are not queued.
    """

    def __init__(self, inner: EmbeddingProvider, places: int, patience: float, part: Part | None = None) -> None:
        """`patience` is in seconds; a query without a turn by then is refused.

        With `part`, the half of the places that a tenant can have is that of all processes of the service together.
        """
        super().__init__(inner)
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
