"""A budget of bytes for each tenant, and for all together."""

from __future__ import annotations

import asyncio
import contextlib

from app.concurrency.limits import ByteBudget


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


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


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
