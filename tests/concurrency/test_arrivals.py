"""Bytes of bodies that have arrived, of all tenants together."""

from __future__ import annotations

import asyncio
import contextlib

from app.concurrency.limits import Arrival, Arrivals


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


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
