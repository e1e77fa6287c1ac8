"""Token buckets of requests: each tenant's limit, refilled within a minute, for one process or all."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from app.concurrency.processes.memory import SharedMemory

REMEMBERED = 10_000
"""Tenants whose requests are remembered; after a minute without requests a tenant's bucket is full anyway."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Buckets:
    """The buckets of this process. Without a tenant's requests for a minute, its bucket is full."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def take(self, tenant: Hashable, limit: int) -> float:
        """Take one of the tenant's requests; returns 0, or the seconds until there is one again."""
        now = self._clock()
        bucket = self._buckets.setdefault(tenant, _Bucket(limit, now))
        bucket.tokens, bucket.at = refill(bucket.tokens, bucket.at, now, limit), now
        self._buckets.move_to_end(tenant)
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        if bucket.tokens < 1:
            return (1 - bucket.tokens) * 60 / limit
        bucket.tokens -= 1
        return 0.0

    def charge(self, tenant: Hashable, requests: int) -> None:
        """Take further requests of a tenant that has taken one, even if there are none."""
        if tenant in self._buckets:
            self._buckets[tenant].tokens -= requests

    def left(self, tenant: Hashable, limit: int) -> float:
        """Requests that are left to the tenant."""
        bucket = self._buckets.get(tenant)
        return limit if bucket is None else refill(bucket.tokens, bucket.at, self._clock(), limit)


def refill(tokens: float, at: float, now: float, limit: int) -> float:
    """The rest of `limit` now, if `tokens` were left at the time `at`."""
    return min(limit, tokens + (now - at) * limit / 60)


class SharedBuckets:
    """As `Buckets`, in shared memory: a tenant's limit applies to all processes together."""

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory

    def take(self, tenant: Hashable, limit: int) -> float:
        """Take one of the tenant's requests; returns 0, or the seconds until there is one again."""
        memory, now = self._memory, time.monotonic()
        slot = memory.slot(tenant)
        bucket = memory.bucket(slot)
        memory.lock(bucket)
        try:
            tokens = self._refill(bucket, now, limit)
            memory.numbers[bucket] = tokens - 1 if tokens >= 1 else tokens
            memory.numbers[bucket + 1] = now
        finally:
            memory.unlock(bucket)
        memory.use(slot)
        return 0.0 if tokens >= 1 else (1 - tokens) * 60 / limit

    def charge(self, tenant: Hashable, requests: int) -> None:
        """Take further requests of a tenant that has taken one, even if there are none."""
        memory = self._memory
        bucket = memory.bucket(memory.slot(tenant))
        memory.lock(bucket)
        try:
            memory.numbers[bucket] -= requests if memory.numbers[bucket + 1] else 0
        finally:
            memory.unlock(bucket)

    def left(self, tenant: Hashable, limit: int) -> float:
        """Requests that are left to the tenant."""
        return self._refill(self._memory.bucket(self._memory.slot(tenant)), time.monotonic(), limit)

    def _refill(self, bucket: int, now: float, limit: int) -> float:
        tokens, at = self._memory.numbers[bucket : bucket + 2].tolist()
        return refill(tokens, at, now, limit) if at else limit
