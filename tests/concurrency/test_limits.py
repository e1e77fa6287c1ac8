"""Limits on bytes, bodies and unidentified callers."""

import asyncio
import contextlib
import os
import platform
import subprocess
import sys

import pytest

from app.concurrency import background
from app.concurrency.background import LARGE, MemoryRelease
from app.concurrency.limits import Arrival, Arrivals, ByteBudget, Pace
from tests.fixtures.clock import settle


class Holder:
    """A block that holds bytes until it is told to end."""

    def __init__(self, budget: ByteBudget, tenant: str, count: int) -> None:
        self.entered = False
        self._end = asyncio.Event()
        self.task = asyncio.create_task(self._run(budget, tenant, count))

    async def _run(self, budget: ByteBudget, tenant: str, count: int) -> None:
        await budget.acquire(tenant, count)
        try:
            self.entered = True
            await self._end.wait()
        finally:
            budget.release(tenant, count)

    async def end(self) -> None:
        self._end.set()
        await self.task
        await settle()


async def test_bytes_over_the_budget_wait_in_order_and_only_for_their_tenant() -> None:
    budget = ByteBudget(10, 100)
    first, large, small, other = (Holder(budget, *asked) for asked in (("a", 6), ("a", 7), ("a", 1), ("b", 10)))
    await settle()
    assert [h.entered for h in (first, large, small, other)] == [True, False, False, True]
    await first.end()
    assert large.entered
    assert small.entered
    assert budget.held("a") == 8
    for holder in (large, small, other):
        await holder.end()
    assert not budget._accounts


async def test_a_body_larger_than_the_budget_has_it_alone() -> None:
    budget = ByteBudget(10, 100)
    first, giant = Holder(budget, "a", 1), Holder(budget, "a", 1_000)
    await settle()
    assert budget.held("a") == 1
    await first.end()
    assert giant.entered
    assert budget.held("a") == 10
    await giant.end()


async def test_a_place_that_is_given_up_passes_to_the_next() -> None:
    budget = ByteBudget(10, 100)
    first, gone, next_ = Holder(budget, "a", 6), Holder(budget, "a", 10), Holder(budget, "a", 4)
    await settle()
    gone.task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await gone.task
    await settle()
    assert next_.entered
    late = Holder(budget, "a", 10)
    await settle()
    first._end.set()
    next_._end.set()
    await asyncio.gather(first.task, next_.task)
    late.task.cancel()  # it may have its place already
    with contextlib.suppress(asyncio.CancelledError):
        await late.task
    assert not budget._accounts


async def test_a_tenant_never_holds_more_than_it_leaves_free_for_others() -> None:
    budget = ByteBudget(40, 100)
    first, second, third = (Holder(budget, tenant, 33) for tenant in "abc")
    await settle()
    assert [h.entered for h in (first, second, third)] == [True, True, False]
    more, small = Holder(budget, "b", 1), Holder(budget, "d", 10)
    await settle()
    assert [h.entered for h in (more, small)] == [False, True], "the free rest is for tenants that hold less"
    await first.end()
    assert [h.entered for h in (third, more)] == [False, True], "the third would leave less than it holds"
    await small.end()
    assert third.entered
    for holder in (second, third, more):
        await holder.end()
    assert not budget._accounts
    assert not budget._line
    assert budget._held == 0


async def test_small_bodies_find_room_while_large_ones_of_many_tenants_are_in_progress() -> None:
    budget = ByteBudget(64, 256)
    hogs = [Holder(budget, f"hog {tenant}", 32) for tenant in range(20) for _ in range(2)]
    await settle()
    assert budget._held <= 256
    small = Holder(budget, "other", 1)
    await settle()
    assert small.entered
    await small.end()
    while waiting := [hog for hog in hogs if not hog.task.done()]:
        entered = [hog for hog in waiting if hog.entered]
        assert entered, "the budget is free, but no tenant gets it"
        for hog in entered:
            await hog.end()
    assert not budget._accounts


async def test_waiting_tenants_get_released_bytes_by_turns() -> None:
    budget = ByteBudget(50, 100)
    first = Holder(budget, "a", 50)
    await settle()
    waiting = [Holder(budget, tenant, 26) for tenant in ("b", "b", "c", "c")]
    await settle()
    assert not any(h.entered for h in waiting[1::2])
    await first.end()
    assert [h.entered for h in waiting] == [True, False, True, False]
    for holder in (waiting[0], waiting[2], waiting[1], waiting[3]):
        await holder.end()
    assert not budget._accounts


async def give_up(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_tenant_gets_no_more_than_it_leaves_free_without_the_reserve() -> None:
    arrivals = Arrivals(100, 20)
    with arrivals.arrival("first"), arrivals.arrival("a") as one, arrivals.arrival("a") as two:
        assert one.take(40)
        assert not two.take(1), "40 of 80 are left for others"
        with arrivals.arrival("b") as other:
            assert other.take(20)
            assert not other.take(1)
        assert arrivals.held == 40
    assert arrivals.held == 0
    assert not arrivals._by_tenant


async def test_the_body_that_began_first_may_use_the_reserve_and_then_the_next_one() -> None:
    arrivals = Arrivals(100, 20)
    with contextlib.ExitStack() as stack:
        first, second, third = (stack.enter_context(arrivals.arrival(name)) for name in "abc")
        assert first.take(40)
        assert second.take(20)
        assert third.take(10)
        assert not second.take(10), "the reserve is not for it, and a tenant leaves as much as it has"
        assert first.take(20)
        growing = asyncio.create_task(second.grow(10))
        await settle()
        assert not growing.done()
        first.complete()
        await asyncio.wait_for(growing, 60)
        assert arrivals.held == 100
        assert not second.take(1)
    assert arrivals.held == 0


async def test_bodies_wait_in_the_order_in_which_they_began() -> None:
    arrivals = Arrivals(100, 20)
    order: list[str] = []

    async def grow(arrival: Arrival, name: str) -> None:
        await arrival.grow(20)
        order.append(name)

    with contextlib.ExitStack() as stack:
        stack.enter_context(arrivals.arrival("slow"))
        with arrivals.arrival("large") as large:
            assert large.take(40)
            assert not large.take(1)
            filler = stack.enter_context(arrivals.arrival("filler"))
            assert filler.take(20)
            bodies = [stack.enter_context(arrivals.arrival(name)) for name in ("a", "b")]
            tasks = [asyncio.create_task(grow(bodies[n], name)) for n, name in ((1, "b"), (0, "a"))]
            await settle()
            assert order == []
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
    assert order == ["a", "b"]
    assert arrivals.held == 0


async def test_bytes_that_are_given_up_are_free_again() -> None:
    arrivals = Arrivals(100, 20)
    with arrivals.arrival("slow"), arrivals.arrival("a") as one:
        assert one.take(40)
        with arrivals.arrival("a") as two:
            waiting = asyncio.create_task(two.grow(10))
            await settle()
            await give_up(waiting)
            assert two.turn is None
        assert arrivals.held == 40
    assert arrivals.held == 0


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


async def test_memory_is_released_once_after_several_large_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_SECONDS", 0.05)
    released = asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()

    def count() -> None:
        loop.call_soon_threadsafe(released.release)

    memory = MemoryRelease(count)
    memory.note(LARGE - 1)
    assert memory._timer is None
    for _ in range(3):
        memory.note(LARGE)
    await asyncio.wait_for(released.acquire(), 60)
    await asyncio.sleep(0.1)
    assert released.locked(), "only once"
    memory.note(LARGE)
    await asyncio.wait_for(released.acquire(), 60)


KEPT = """
import json, psutil, sys, threading
from app.kernel import release_free_memory, return_large_blocks
if sys.argv[1] == "with":
    return_large_blocks(1024 * 1024)
def use():
    body = b'["' + b"x" * (31 << 20) + b'"]'
    for _ in range(2):
        json.loads(body.decode())
before = psutil.Process().memory_info().rss
done, over = threading.Event(), threading.Event()
thread = threading.Thread(target=lambda: (use(), done.set(), over.wait()))
thread.start()
done.wait()
release_free_memory()
print((psutil.Process().memory_info().rss - before) >> 20)
over.set()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such setting")
def test_a_thread_keeps_no_large_block() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("COV")}  # which allocates too
    kept = {
        how: int(subprocess.run([sys.executable, "-c", KEPT, how], capture_output=True, check=True, env=env).stdout)
        for how in ("with", "without")
    }
    assert kept["with"] < 8 < kept["without"]
