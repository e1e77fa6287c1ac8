"""Bytes of bodies that have arrived, of all tenants together: what is only announced takes no room from others."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator

from app.concurrency.stopwatch import current_stopwatch


class Arrival:
    """One body while it is received and used."""

    def __init__(self, arrivals: Arrivals, tenant: Hashable) -> None:
        self._arrivals = arrivals
        self.tenant = tenant
        self.held = 0
        self.wanted = 0
        self.turn: asyncio.Future[None] | None = None

    def take(self, count: int) -> bool:
        """Hold `count` bytes more, if there is room at once."""
        return self._arrivals.take(self, count)

    async def grow(self, count: int) -> None:
        """Hold `count` bytes more, and wait for room if necessary."""
        if self.take(count):
            return
        self.wanted, self.turn = count, asyncio.get_running_loop().create_future()
        try:
            with current_stopwatch().waiting():
                await self.turn
        finally:
            self.turn = None

    def complete(self) -> None:
        """All of the body has arrived: the reserve is free for the next one."""
        self._arrivals.complete(self)


class Arrivals:
    """Bytes that have arrived, at most `total`. The last `reserve` of them are for the body that began first, so that
    it can always complete: bodies never wait for one another in a circle.

    A tenant never gets more than it then leaves free for others, without the reserve.
    """

    def __init__(self, total: int, reserve: int) -> None:
        """`reserve` is the length of the longest body."""
        self._total = total
        self._reserve = reserve
        self._held = 0
        self._by_tenant: Counter[Hashable] = Counter()
        # In the order in which they began.
        self._incomplete: OrderedDict[Arrival, None] = OrderedDict()

    @property
    def held(self) -> int:
        """Bytes of all tenants."""
        return self._held

    @contextlib.contextmanager
    def arrival(self, tenant: Hashable) -> Iterator[Arrival]:
        """A body of a tenant; its bytes are held until the block ends."""
        arrival = Arrival(self, tenant)
        self._incomplete[arrival] = None
        try:
            yield arrival
        finally:
            self._held -= arrival.held
            self._by_tenant[tenant] -= arrival.held
            if not self._by_tenant[tenant]:
                del self._by_tenant[tenant]
            self.complete(arrival)

    def take(self, arrival: Arrival, count: int) -> bool:
        """Hold `count` bytes more for a body, if it has room for them."""
        free = self._total - self._held - count
        if arrival is not next(iter(self._incomplete), None):
            free -= self._reserve + self._by_tenant[arrival.tenant] + count
        if free < 0:
            return False
        self._held += count
        self._by_tenant[arrival.tenant] += count
        arrival.held += count
        return True

    def complete(self, arrival: Arrival) -> None:
        """A body grows no more."""
        self._incomplete.pop(arrival, None)
        for other in list(self._incomplete):
            turn = other.turn
            if turn is not None and not turn.done() and self.take(other, other.wanted):
                turn.set_result(None)
