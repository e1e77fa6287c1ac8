"""Limits on bytes in progress, on bytes of bodies, and on the pace of unidentified callers."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from app.concurrency.memory import LOOK_AGAIN, SharedAmounts
from app.concurrency.stopwatch import current_stopwatch


@dataclass(slots=True)
class _Account:
    """The bytes that one tenant holds, and the bytes that it waits for."""

    held: int = 0
    waiting: deque[tuple[int, asyncio.Future[None]]] = field(default_factory=deque)


class ByteBudget:
    """Gives each tenant at most `most` bytes at the same time, first come, first served, and all together `total`.

    A tenant never holds more than it leaves free for others. So n tenants that ask for all they can get have an equal
    share of 1/(n + 1) each, and the last share stays free for the next tenant.

    With `common`, what the other processes of the service hold for a tenant counts for `most`, but not for `total`.
    """

    def __init__(self, most: int, total: float = math.inf, common: SharedAmounts | None = None) -> None:
        """`total` is at least twice `most`: a single tenant can always have its whole budget."""
        self._common = common
        self._looking = False
        self._most = most
        self._total = total
        self._held = 0
        self._accounts: dict[Hashable, _Account] = {}
        # Only waiting tenants; the next turn is at the beginning.
        self._line: OrderedDict[Hashable, None] = OrderedDict()

    def held(self, tenant: Hashable) -> int:
        """Bytes that the tenant holds."""
        return self._accounts[tenant].held if tenant in self._accounts else 0

    def take(self, tenant: Hashable, count: int) -> bool:
        """Take `count` bytes until `release`, if they are free at once; no more than the whole budget is counted."""
        account = self._accounts.setdefault(tenant, _Account())
        return not account.waiting and self._take(tenant, account, min(count, self._most))

    async def acquire(self, tenant: Hashable, count: int) -> None:
        """Take `count` bytes, and wait for them if necessary."""
        if self.take(tenant, count):
            return
        count = min(count, self._most)
        account = self._accounts[tenant]
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        account.waiting.append((count, place))
        self._line.setdefault(tenant)
        self._publish(tenant, account)
        self._look_again()
        try:
            with current_stopwatch().waiting():
                await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._add(account, -count)
            with contextlib.suppress(ValueError):
                account.waiting.remove((count, place))
            self._hand_out(tenant)
            raise

    def release(self, tenant: Hashable, count: int) -> None:
        """Give back what was taken with the same count."""
        if (account := self._accounts.get(tenant)) is not None:
            self._add(account, -min(count, self._most))
            self._hand_out(tenant)

    def _take(self, tenant: Hashable, account: _Account, count: int) -> bool:
        held = account.held + count
        if held > self._most or held > self._total - self._held - count:
            return False
        if self._common is not None and not self._common.take(tenant, count, account.held, self._most):
            return False
        self._add(account, count)
        return True

    def _publish(self, tenant: Hashable, account: _Account) -> None:
        if self._common is not None:
            self._common.publish(tenant, account.held, bool(account.waiting))

    def _look_again(self) -> None:
        """Look again soon whether another process has released bytes, which does not announce it."""
        if self._common is not None and self._line and not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_later(LOOK_AGAIN, self._look)

    def _look(self) -> None:
        self._looking = False
        self._hand_out(None)
        self._look_again()

    def _add(self, account: _Account, count: int) -> None:
        account.held += count
        self._held += count

    def _hand_out(self, released: Hashable) -> None:
        """Give what a tenant has released to the tenants that wait, by turns."""
        left = self._accounts.get(released)
        if left is not None:
            self._publish(released, left)
        while (tenant := self._next()) is not None:
            account = self._accounts[tenant]
            _, place = account.waiting.popleft()
            place.set_result(None)
            if account.waiting:
                self._line.move_to_end(tenant)
            else:
                del self._line[tenant]
                self._publish(tenant, account)
        if left is not None and not left.held and not left.waiting and self._accounts.get(released) is left:
            del self._accounts[released]

    def _next(self) -> Hashable | None:
        """The first waiting tenant whose request fits, after its bytes are taken."""
        for tenant in list(self._line):
            account = self._accounts[tenant]
            while account.waiting and account.waiting[0][1].done():  # given up
                account.waiting.popleft()
            if not account.waiting:
                del self._line[tenant]
            elif self._take(tenant, account, account.waiting[0][0]):
                return tenant
        return None


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
        self.held = 0
        self._by_tenant: Counter[Hashable] = Counter()
        # In the order in which they began.
        self._incomplete: OrderedDict[Arrival, None] = OrderedDict()

    @contextlib.contextmanager
    def arrival(self, tenant: Hashable) -> Iterator[Arrival]:
        """A body of a tenant; its bytes are held until the block ends."""
        arrival = Arrival(self, tenant)
        self._incomplete[arrival] = None
        try:
            yield arrival
        finally:
            self.held -= arrival.held
            self._by_tenant[tenant] -= arrival.held
            if not self._by_tenant[tenant]:
                del self._by_tenant[tenant]
            self.complete(arrival)

    def take(self, arrival: Arrival, count: int) -> bool:
        """Hold `count` bytes more for a body, if it has room for them."""
        free = self._total - self.held - count
        if arrival is not next(iter(self._incomplete), None):
            free -= self._reserve + self._by_tenant[arrival.tenant] + count
        if free < 0:
            return False
        self.held += count
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


class Pace:
    """Lets `rate` callers pass in a second, `burst` of them at once after a pause; those that wait pass by turns."""

    def __init__(self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._ready = float(burst)
        self._at = clock()
        # Only keys with callers that wait; the next turn is at the beginning.
        self._line: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, key: Hashable) -> None:
        """Wait for a turn of `key`."""
        self._refill()
        if not self._line and self._ready >= 1:
            self._ready -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.setdefault(key, deque()).append(turn)
        self._expect_next()
        await turn

    def _refill(self) -> None:
        now = self._clock()
        self._ready = min(self._burst, self._ready + (now - self._at) * self._rate)
        self._at = now

    def _expect_next(self) -> None:
        if self._timer is None:
            delay = max(0.0, 1 - self._ready) / self._rate
            self._timer = asyncio.get_running_loop().call_later(delay, self._hand_out)

    def _hand_out(self) -> None:
        self._timer = None
        self._refill()
        while self._line and self._ready >= 1:
            key, turns = next(iter(self._line.items()))
            turn = turns.popleft()
            if turns:
                self._line.move_to_end(key)
            else:
                del self._line[key]
            if not turn.done():  # given up
                turn.set_result(None)
                self._ready -= 1
        if self._line:
            self._expect_next()
