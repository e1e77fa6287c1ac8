"""A steady pace for callers without a token."""

from __future__ import annotations

import asyncio
import contextlib

from app.concurrency.limits import Pace


class Passers:
    """Callers that wait for a turn, and the order in which they got it."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.order: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def arrive(self, *keys: str) -> None:
        self.tasks += [asyncio.create_task(self._pass(key)) for key in keys]
        await asyncio.sleep(0)

    async def _pass(self, key: str) -> None:
        await self._pace.wait(key)
        self.order.append(key)


async def test_a_burst_passes_at_once_and_further_callers_by_turns() -> None:
    now = [0.0]
    passers = Passers(Pace(1_000, 2, clock=lambda: now[0]))
    await passers.arrive("a", "a", "a", "a", "a", "b")
    assert passers.order == ["a", "a"]
    await asyncio.sleep(0.01)
    assert passers.order == ["a", "a"], "time stands still"
    for passed in range(3, 7):
        now[0] += 0.001
        while len(passers.order) < passed:  # noqa: ASYNC110 (it looks for what must not happen, too)
            await asyncio.sleep(0.001)
    assert passers.order == ["a", "a", "a", "b", "a", "a"]


async def test_a_caller_that_leaves_takes_no_turn() -> None:
    now = [0.0]
    passers = Passers(Pace(1_000, 1, clock=lambda: now[0]))
    await passers.arrive("a", "b", "c")
    passers.tasks[1].cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await passers.tasks[1]
    now[0] += 0.001
    await asyncio.wait_for(passers.tasks[2], 60)
    assert passers.order == ["a", "c"]


async def test_a_pause_gives_no_more_than_the_burst() -> None:
    now = [0.0]
    pace = Pace(1_000, 2, clock=lambda: now[0])
    now[0] += 3_600
    passers = Passers(pace)
    await passers.arrive("a", "a", "a")
    assert passers.order == ["a", "a"]
    passers.tasks[2].cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await passers.tasks[2]
