"""Buckets of requests: each tenant has as many as its limit, and as many again within a minute."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

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
    """What is left of `limit` now, if `tokens` were left at the time `at`."""
    return min(limit, tokens + (now - at) * limit / 60)
