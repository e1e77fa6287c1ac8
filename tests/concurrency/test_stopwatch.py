"""The time of a request, and the part of it in which it waited."""

import asyncio
import time

import pytest

from app.concurrency import stopwatch as module
from app.concurrency.background import start_background
from app.concurrency.stopwatch import Steps, Stopwatch, current_stopwatch, run_stopwatch
from app.concurrency.turns import Turns


class Clock:
    """A clock that moves only when the test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_parts_that_wait_at_the_same_time_are_counted_once(clock: Clock) -> None:
    stopwatch = Stopwatch()
    clock.now += 1
    with stopwatch.waiting():
        clock.now += 1
        with stopwatch.waiting():
            clock.now += 2
        clock.now += 1
    clock.now += 1
    with stopwatch.waiting():
        clock.now += 3
    assert (stopwatch.seconds, stopwatch.waited) == (9, 7)


def test_a_fork_has_the_same_arrival_and_the_waiting_so_far(clock: Clock) -> None:
    stopwatch = Stopwatch()
    with stopwatch.waiting():
        clock.now += 1
    fork = stopwatch.fork()
    with fork.waiting():
        clock.now += 2
    assert (fork.seconds, fork.waited) == (3, 3)
    assert (stopwatch.seconds, stopwatch.waited) == (3, 1)


def test_only_the_waiting_since_joining_shared_work_counts(clock: Clock) -> None:
    shared, late = Stopwatch(), Stopwatch()
    with shared.waiting():
        clock.now += 2
        with late.joining(shared):
            clock.now += 1
            shared._waits.append((100.0, clock.now))
    assert late.waited == 1


async def test_a_turn_that_is_free_takes_no_waiting_and_others_do() -> None:
    turns = Turns(1)
    with run_stopwatch(Stopwatch()) as first:
        await turns.acquire("a")
    with run_stopwatch(Stopwatch()) as second:
        waiting = asyncio.create_task(turns.acquire("a"))  # a task shares the stopwatch
    await asyncio.sleep(0.02)
    turns.release("a")
    await waiting
    assert first.waited == 0
    assert second.waited >= 0.015


async def test_background_work_has_a_stopwatch_of_its_own() -> None:
    async def find() -> Stopwatch:
        return current_stopwatch()

    with run_stopwatch(Stopwatch(time.perf_counter() - 60)) as request:
        assert current_stopwatch() is request
        assert await asyncio.create_task(find()) is request
        assert (await start_background(find())).seconds < 60
    assert current_stopwatch() is not request


async def test_the_steps_of_a_coroutine_are_counted_as_kept() -> None:
    stopwatch = Stopwatch()

    async def work() -> str:
        began = time.thread_time()
        while time.thread_time() - began < 0.01:
            pass
        await asyncio.sleep(0)
        return "done"

    assert await Steps(work(), stopwatch) == "done"
    assert stopwatch.kept >= 0.01
    kept = stopwatch.kept
    await work()
    assert stopwatch.kept == kept, "others do not count"


async def test_errors_and_cancellations_pass_through_the_steps() -> None:
    seen: list[str] = []

    async def fail() -> None:
        await asyncio.sleep(0)
        raise KeyError("a")

    async def wait() -> None:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(KeyError):
        await Steps(fail(), Stopwatch())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await Steps(wait(), Stopwatch())
    assert seen == ["cancelled"]
