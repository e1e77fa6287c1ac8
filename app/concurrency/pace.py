"""A steady pace for callers that have not been identified."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable


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
