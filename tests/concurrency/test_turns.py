"""Fair turns between tenants."""

import asyncio
import random

import pytest

from app.concurrency.turns import LATELY, PLATFORM, Turns
from tests.fixtures.clock import FakeClock, settle


def wait_for(turns: Turns, tenant: str) -> asyncio.Task[None]:
    return asyncio.create_task(turns.acquire(tenant))


async def test_a_tenant_alone_may_hold_every_place() -> None:
    turns = Turns(3, crowd=1)
    for _ in range(3):
        await turns.acquire("a")
    fourth = wait_for(turns, "a")
    await settle()
    assert (turns.held("a"), turns.waiting("a"), fourth.done()) == (3, 1, False)
    turns.release("a")
    await fourth


async def test_tenants_share_the_places_while_several_are_active() -> None:
    turns = Turns(10, crowd=4)
    await turns.acquire("b")
    waiting = [wait_for(turns, "a") for _ in range(5)]
    await settle()
    assert turns.held("a") == 2
    turns.release("a")
    await settle()
    assert (turns.held("a"), sum(w.done() for w in waiting)) == (2, 3)
    [w.cancel() for w in waiting]


async def test_a_process_that_stands_still_forgets_no_place() -> None:
    """Whatever time passes between two readings of the clock, a place that was taken can be released."""
    clock = FakeClock()

    def read() -> float:
        clock.now += 2 * LATELY
        return clock.now

    turns = Turns(2, crowd=1, clock=read)
    await turns.acquire("a")
    turns.release("a")
    assert (turns.take("b"), turns.take("a")) == (True, True)
    turns.release("b")
    turns.release("a")
    assert turns.taken == 0


async def test_a_tenant_that_was_active_elsewhere_counts_for_a_while() -> None:
    clock = FakeClock()
    turns = Turns(10, crowd=2, clock=clock)
    turns.note("b")
    assert (turns.share, turns.is_uncontended) == (10, True), "alone so far"
    await turns.acquire("a")
    waiting = wait_for(turns, "a")
    await settle()
    assert (turns.held("a"), turns.waiting("a")) == (1, 1)
    clock.now += 2 * LATELY
    turns.release("a")
    await waiting
    assert turns.share == 10


async def test_no_share_is_below_the_minimum() -> None:
    turns = Turns(10, crowd=2, least=3)
    await turns.acquire("b")
    waiting = [wait_for(turns, "a") for _ in range(5)]
    await settle()
    assert turns.held("a") == 3
    [w.cancel() for w in waiting]


async def test_waiting_callers_leave_room_for_another_tenant() -> None:
    turns = Turns(2)
    crowd = [wait_for(turns, "a") for _ in range(6)]
    await settle()
    other = wait_for(turns, "b")
    await settle()
    assert not other.done()
    turns.release("a")
    await settle()
    assert other.done()
    assert sum(w.done() for w in crowd) == 2
    [w.cancel() for w in crowd]


async def test_a_tenant_is_alone_again_when_the_others_have_been_idle() -> None:
    clock = FakeClock()
    turns = Turns(4, crowd=1, clock=clock)
    await turns.acquire("b")
    turns.release("b")
    waiting = [wait_for(turns, "a") for _ in range(4)]
    await settle()
    assert (turns.held("a"), turns.is_uncontended) == (1, False)
    clock.now += LATELY + 0.01
    turns.release("a")
    await settle()
    assert (turns.held("a"), turns.is_uncontended) == (3, True)
    assert all(w.done() for w in waiting)


async def test_the_platform_reduces_no_tenants_share() -> None:
    turns = Turns(4, crowd=1)
    await turns.acquire(PLATFORM)
    await turns.acquire("a")
    await turns.acquire("a")
    assert (turns.is_uncontended, turns.held("a")) == (True, 2)


async def test_a_tenant_never_holds_more_than_its_own_limit() -> None:
    turns = Turns(10)
    await turns.acquire("a", most=1)
    second = asyncio.create_task(turns.acquire("a", most=1))
    await settle()
    assert not second.done()
    turns.release("a")
    await second


async def test_a_caller_that_stops_waiting_leaves_nothing_behind() -> None:
    turns = Turns(1)
    await turns.acquire("a")
    for tenant in ("a", "b"):
        waiting = wait_for(turns, tenant)
        await settle()
        waiting.cancel()
        await settle()
    turns.release("a")
    async with asyncio.timeout(30):
        await turns.acquire("c")
    assert (turns.taken, turns.waiting("a"), turns.waiting("b")) == (1, 0, 0)


async def test_a_tenant_whose_last_turn_was_long_delays_no_other() -> None:
    clock = FakeClock()
    turns = Turns(1, clock=clock)
    await turns.acquire("a")
    waiting = wait_for(turns, "b")
    await settle()
    turns.release("a")
    await waiting
    clock.now += 2 * LATELY
    turns.release("b")
    async with asyncio.timeout(30):
        await turns.acquire("a")
    turns.release("a")
    assert (turns.taken, turns.waited_for) == (0, 0)


@pytest.mark.parametrize("seed", range(40))
async def test_places_are_neither_lost_nor_duplicated_in_random_runs(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 (no secret)
    clock = FakeClock()
    places = chance.choice((1, 3, 10))
    turns = Turns(places, crowd=2, least=chance.choice((1, 3)), clock=clock)
    held: list[str] = []
    waiting: list[tuple[str, asyncio.Task[None]]] = []
    for _ in range(300):
        clock.now += chance.choice((0.0, 0.01, 0.6, 1.5 * LATELY))
        step = chance.random()
        if step < 0.5:
            tenant = chance.choice(["a", "b", "c", "d", PLATFORM])
            waiting.append((tenant, wait_for(turns, tenant)))
        elif step < 0.6 and waiting:
            waiting.pop(chance.randrange(len(waiting)))[1].cancel()
        elif held:
            turns.release(held.pop(chance.randrange(len(held))))
        await settle()
        held += [tenant for tenant, task in waiting if task.done()]
        waiting = [(tenant, task) for tenant, task in waiting if not task.done()]
        assert turns.taken == len(held) <= places
        assert turns.waited_for == len(waiting)
    while held:
        turns.release(held.pop())
        await settle()
        held += [tenant for tenant, task in waiting if task.done()]
        waiting = [(tenant, task) for tenant, task in waiting if not task.done()]
    assert (waiting, turns.taken, turns.waited_for) == ([], 0, 0)


async def test_a_place_given_to_a_cancelled_caller_goes_to_the_next() -> None:
    turns = Turns(1)
    await turns.acquire("a")
    first, second = wait_for(turns, "b"), wait_for(turns, "c")
    await settle()
    turns.release("a")
    first.cancel()
    await settle()
    assert first.cancelled()
    assert second.done()
    assert turns.taken == 1


async def test_a_tenant_with_more_waiting_rests_while_others_are_active() -> None:
    turns = Turns(4, crowd=2, rest=0.5)
    await turns.acquire("b")
    await turns.acquire("a")
    waiting = wait_for(turns, "a")
    await settle()
    turns.release("a", took=0.02)
    assert (turns.held("a"), turns.waiting("a"), turns.taken) == (0, 1, 1)
    async with asyncio.timeout(30):
        await waiting
    assert turns.held("a") == 1


@pytest.mark.parametrize("tenants", [2, 20])
async def test_every_request_gets_its_turn(tenants: int) -> None:
    turns = Turns(3, crowd=2, rest=0.1)
    most = 0

    async def work(tenant: int) -> None:
        nonlocal most
        async with turns.turn(tenant):
            most = max(most, turns.taken)
            await asyncio.sleep(0.001)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(n % tenants) for n in range(60)))
    assert (turns.taken, most) == (0, 3 if tenants > 2 else most)
