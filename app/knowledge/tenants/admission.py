"""Who is let in now: requests a minute, and work at the same time, of each tenant in this process."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from app.concurrency.turns import Turns
from app.errors import RateLimited
from app.knowledge.tenants.directory import TenantContext

REMEMBERED = 10_000
"""Tenants whose requests are remembered; a minute's silence makes a tenant as good as new in any case."""

PLACES = 500
"""Searches, and likewise readings, of all tenants at the same time: memory's limit. The database's pool is the narrower
gate."""

WAITING = 64
"""Searches of one tenant that wait for their turn; a further one is refused at once."""

PATIENCE = 10.0
"""Seconds that a search or a reading waits for its turn."""

REST = 0.5
"""Measured on two cores with benchmarks/flood.py: without it a tenant that floods leaves too little to the others."""

READING_REST = 3.0
"""Of reading, which is work of this process alone and keeps its loop from others: measured likewise."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Admission:
    """Counts in memory, each process for itself: it costs a request nothing, and n processes let in n times as much."""

    def __init__(
        self,
        *,
        crowd: int | None = None,
        waiting: int = WAITING,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """While several tenants search or read, each has an equal share of `crowd` searches at a time, and of readings
        likewise, and one at least."""
        self._clock = clock
        self._waiting = waiting
        self._patience = patience
        self._buckets: OrderedDict[UUID, _Bucket] = OrderedDict()
        self._turns = Turns(PLACES, crowd=crowd, rest=REST, clock=clock)
        self._readings = Turns(PLACES, crowd=crowd, rest=READING_REST, clock=clock)
        self.refused: dict[str, int] = {}

    def admit(self, tenant: TenantContext) -> None:
        """Count one request. Raises RateLimited when the minute's are used up."""
        limit = tenant.limits.requests_per_minute
        if not limit:
            return
        now = self._clock()
        bucket = self._buckets.setdefault(tenant.tenant_id, _Bucket(limit, now))
        bucket.tokens = min(limit, bucket.tokens + (now - bucket.at) * limit / 60)
        bucket.at = now
        self._buckets.move_to_end(tenant.tenant_id)
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        if bucket.tokens < 1:
            raise self._refuse("requests_per_minute", limit, (1 - bucket.tokens) * 60 / limit)
        bucket.tokens -= 1

    def charge(self, tenant: TenantContext, requests: int) -> None:
        """Count further requests that came with one that was admitted; those that follow wait for them."""
        if tenant.tenant_id in self._buckets:
            self._buckets[tenant.tenant_id].tokens -= requests

    @asynccontextmanager
    async def search(self, tenant: TenantContext) -> AsyncIterator[None]:
        """Hold one of the tenant's places for a search. Raises RateLimited when too many wait, or for too long."""
        limit = tenant.limits.concurrent_searches
        key = tenant.tenant_id
        self._readings.note(key)
        if limit and self._turns.waiting(key) >= self._waiting:
            raise self._refuse("concurrent_searches", limit, 1.0)
        try:
            async with asyncio.timeout(self._patience):
                await self._turns.acquire(key, most=limit or None)
        except TimeoutError:
            raise self._refuse("concurrent_searches", limit, 1.0) from None
        began = self._clock()
        try:
            yield
        finally:
            self._turns.release(key, self._clock() - began)

    @asynccontextmanager
    async def reading(self, tenant: TenantContext) -> AsyncIterator[None]:
        """Hold a place while something is read and shown, of which one tenant's crowd must not make all others wait.

        Raises RateLimited when it takes too long to get one. May be held while waiting for a search's place.
        """
        self._turns.note(tenant.tenant_id)
        try:
            async with asyncio.timeout(self._patience):
                await self._readings.acquire(tenant.tenant_id)
        except TimeoutError:
            raise self._refuse("concurrent_requests", 0, 1.0) from None
        began = self._clock()
        try:
            yield
        finally:
            self._readings.release(tenant.tenant_id, self._clock() - began)

    @property
    def under_way(self) -> tuple[int, int]:
        """Searches of all tenants that run, and that wait for their turn."""
        return self._turns.taken, self._turns.waited_for

    def used(self, tenant: TenantContext) -> dict[str, int]:
        """Requests of the last minute, as far as they count, and searches under way."""
        limit = tenant.limits.requests_per_minute
        bucket = self._buckets.get(tenant.tenant_id)
        left = (
            limit if bucket is None else min(limit, bucket.tokens + (self._clock() - bucket.at) * limit / 60)
        )
        return {
            "requests_per_minute": round(limit - left),
            "concurrent_searches": self._turns.held(tenant.tenant_id),
        }

    def _refuse(self, limit: str, most: int, retry_after: float) -> RateLimited:
        self.refused[limit] = self.refused.get(limit, 0) + 1
        said = {
            "requests_per_minute": f"the tenant's limit of {most} requests a minute is used up",
            "concurrent_searches": f"more searches of the tenant than its limit of {most} are under way"
            if most
            else "too many searches are under way",
            "concurrent_requests": "too many requests of the tenant are under way",
        }[limit]
        return RateLimited(f"{limit}: {said}", retry_after, limit)
