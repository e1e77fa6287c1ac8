"""A budget of bytes for each tenant and for all together, so that what is in progress does not fill the memory."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from app.concurrency.processes.amounts import LOOK_AGAIN, SharedAmounts
from app.concurrency.stopwatch import current_stopwatch


@dataclass(slots=True)
class _Account:
    """The bytes that one tenant holds, and those that it waits for."""

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
        if not self._has_room(account, count):
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

    def _has_room(self, account: _Account, count: int) -> bool:
        held = account.held + count
        return held <= self._most and held <= self._total - self._held - count

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
        """The first waiting tenant that has room for what it waits for, after it has taken it."""
        for tenant in list(self._line):
            account = self._accounts[tenant]
            while account.waiting and account.waiting[0][1].done():  # given up
                account.waiting.popleft()
            if not account.waiting:
                del self._line[tenant]
            elif self._take(tenant, account, account.waiting[0][0]):
                return tenant
        return None
