"""Buckets of requests that all processes of a service take from."""

from __future__ import annotations

import time
from collections.abc import Hashable

from app.concurrency.buckets import refill
from app.concurrency.processes.memory import SharedMemory


class SharedBuckets:
    """As `Buckets`, in shared memory: a tenant's limit holds for all processes together."""

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
