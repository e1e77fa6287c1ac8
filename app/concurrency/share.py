"""A share of the event loop for each tenant's refused and large requests, so that they do not delay others."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from app.concurrency.stopwatch import current_stopwatch

SHARE = 0.05
"""Share of the event loop's time for the charged requests of one tenant while others are active."""

FREE = 0.5
"""Seconds that a tenant has in advance: some hundred refused requests, an honest caller's occasional mistakes."""

DEEPEST = 0.25
"""Seconds of the largest debt: it is paid off after five seconds."""

LOOK_AGAIN = 0.25
"""Seconds at most between two checks whether other tenants are still active."""

TENANTS = 10_000
"""Tenants whose time is counted; a further one replaces the tenant that was charged least recently."""

REFUSED_SECONDS = 0.0005
"""Added to the time for which a refused request kept the event loop: its connection, log line and metrics."""

MIB_SECONDS = 0.008
"""Added for each MiB of a refused or large body, which is received in pieces; a file is also stored and parsed."""

MIB = 1024 * 1024

LARGE = MIB
"""Bytes above which the time of an accepted body counts, too."""

LARGE_PART = 0.25
"""Part of this time that counts."""


@dataclass(frozen=True, slots=True)
class AdmissionTicket:
    """How a request passed its tenant's share of the event loop.

    Attributes:
        paced: whether it had to wait.
        charged: bytes of its body that were charged already.
    """

    paced: bool
    charged: int


@dataclass(frozen=True, slots=True)
class Work:
    """The cost of a request.

    Attributes:
        seconds: for which it kept the event loop.
        size: bytes of its body.
        refused: whether it was refused.
    """

    seconds: float
    size: int
    refused: bool


@dataclass(slots=True)
class _Account:
    """Seconds that a tenant has left, and its requests that wait for time."""

    seconds: float
    at: float
    passing: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    timer: asyncio.TimerHandle | None = None


class LoopShare:
    """Counts the seconds for which tenants kept the event loop. A tenant that used up its share waits until it has
    paid, while others are active; then its requests pass one after the other.

    A tenant without charged requests has no account and never waits.
    """

    def __init__(self, is_alone: Callable[[Hashable], bool], *, clock: Callable[[], float] = time.monotonic) -> None:
        """`is_alone` returns whether no other tenant is active."""
        self._is_alone = is_alone
        self._clock = clock
        # In the order of the last charge, the most recent at the end.
        self._accounts: OrderedDict[Hashable, _Account] = OrderedDict()

    def enter(self, tenant: Hashable, announced: int, paced: bool) -> AdmissionTicket:
        """Let a request pass, and charge a large body by its announced bytes; `charge_answered` follows."""
        if announced <= LARGE:
            return AdmissionTicket(paced, 0)
        self.charge(tenant, announced / MIB * MIB_SECONDS)
        return AdmissionTicket(paced, announced)

    def charge_answered(self, tenant: Hashable, work: Work, ticket: AdmissionTicket | None) -> None:
        """Charge an answered request if it was refused or large."""
        if work.refused or work.size > LARGE:
            part = 1.0 if work.refused else LARGE_PART
            further = max(0, work.size - ticket.charged) if ticket else work.size
            self.charge(tenant, part * work.seconds + REFUSED_SECONDS + further / MIB * MIB_SECONDS)
        if ticket and ticket.paced:
            self.leave(tenant)

    def charge(self, tenant: Hashable, seconds: float) -> None:
        """Count time of the event loop that a tenant has used."""
        if (account := self._find(tenant)) is None:
            account = self._accounts[tenant] = _Account(FREE, self._clock())
        account.seconds = max(-DEEPEST, account.seconds - seconds)
        self._accounts.move_to_end(tenant)
        self._forget()

    def may_pass(self, tenant: Hashable) -> bool:
        """Whether a request of the tenant need not wait."""
        account = self._find(tenant)
        return account is None or self._is_alone(tenant) or (account.seconds >= 0 and not account.waiting)

    async def wait(self, tenant: Hashable) -> None:
        """Wait until the tenant has paid, and its earlier requests have passed; `leave` follows."""
        account = self._find(tenant)
        if account is None:
            account = self._accounts[tenant] = _Account(FREE, self._clock())
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        account.waiting.append(turn)
        self._hand_out(tenant)
        try:
            with current_stopwatch().waiting():
                await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(tenant)
            raise

    def leave(self, tenant: Hashable) -> None:
        """A request that has waited is answered, and was charged: the next one may follow."""
        if (account := self._accounts.get(tenant)) is not None and account.passing:
            account.passing -= 1
            self._hand_out(tenant)

    def _hand_out(self, tenant: Hashable) -> None:
        account = self._find(tenant)
        if account is None:
            return
        if account.timer is not None:
            account.timer.cancel()
            account.timer = None
        while account.waiting and account.waiting[0].done():  # given up
            account.waiting.popleft()
        if not account.waiting or account.passing:
            return
        if account.seconds >= 0 or self._is_alone(tenant):
            account.passing += 1
            account.waiting.popleft().set_result(None)
            return
        delay = min(LOOK_AGAIN, -account.seconds / SHARE)
        account.timer = asyncio.get_running_loop().call_later(delay, self._hand_out, tenant)

    def _find(self, tenant: Hashable) -> _Account | None:
        """The account with the time that has passed; none when it is full again."""
        if (account := self._accounts.get(tenant)) is None:
            return None
        now = self._clock()
        account.seconds = min(FREE, account.seconds + (now - account.at) * SHARE)
        account.at = now
        if account.seconds < FREE or account.waiting or account.passing:
            return account
        del self._accounts[tenant]
        return None

    def _forget(self) -> None:
        while len(self._accounts) > TENANTS:
            oldest = next(iter(self._accounts))
            account = self._accounts[oldest]
            if account.waiting or account.passing:
                return
            del self._accounts[oldest]
