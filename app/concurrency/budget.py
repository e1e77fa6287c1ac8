"""A budget of bytes for each tenant, so that what is in progress for one tenant does not fill the memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from app.concurrency.stopwatch import current_stopwatch


@dataclass(slots=True)
class _Account:
    """The bytes that one tenant holds, and those that it waits for."""

    held: int = 0
    waiting: deque[tuple[int, asyncio.Future[None]]] = field(default_factory=deque)


class ByteBudget:
    """Gives each tenant at most `most` bytes at the same time, first come, first served."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._accounts: dict[Hashable, _Account] = {}

    def held(self, tenant: Hashable) -> int:
        """Bytes that the tenant holds."""
        return self._accounts[tenant].held if tenant in self._accounts else 0

    def take(self, tenant: Hashable, count: int) -> bool:
        """Take `count` bytes until `release`, if they are free at once; no more than the whole budget is counted."""
        account = self._accounts.setdefault(tenant, _Account())
        if account.waiting or account.held + min(count, self._most) > self._most:
            return False
        account.held += min(count, self._most)
        return True

    async def acquire(self, tenant: Hashable, count: int) -> None:
        """Take `count` bytes, and wait for them if necessary."""
        if self.take(tenant, count):
            return
        count = min(count, self._most)
        account = self._accounts[tenant]
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        account.waiting.append((count, place))
        try:
            with current_stopwatch().waiting():
                await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                account.held -= count
            with contextlib.suppress(ValueError):
                account.waiting.remove((count, place))
            self._hand_out(tenant, account)
            raise

    def release(self, tenant: Hashable, count: int) -> None:
        """Give back what was taken with the same count."""
        if (account := self._accounts.get(tenant)) is not None:
            account.held -= min(count, self._most)
            self._hand_out(tenant, account)

    def _hand_out(self, tenant: Hashable, account: _Account) -> None:
        while account.waiting and account.held + account.waiting[0][0] <= self._most:
            count, place = account.waiting[0]
            if not place.done():
                account.held += count
                place.set_result(None)
            account.waiting.popleft()
        if not account.held and not account.waiting and self._accounts.get(tenant) is account:
            del self._accounts[tenant]
