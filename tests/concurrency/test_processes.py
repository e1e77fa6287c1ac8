"""What the processes of a service share, and the changes and writes of tenants."""

import asyncio
import subprocess
import sys
import time
from uuid import UUID

import pytest

from app.concurrency.limits import ByteBudget
from app.concurrency.memory import ACTIVE, CELLS, COUNTED_FOR, LOOK_AGAIN, SETS, WAYS, SharedMemory
from app.concurrency.part import REMEMBERED, Generations, LastWrites, Part
from app.concurrency.turns import Turns
from app.web.occupancy import Occupancy
from tests.concurrency.takers import LIMIT, SECONDS

ONE, OTHER = UUID(int=1 << 90), UUID(int=2 << 90)


@pytest.fixture
def parts() -> tuple[Part, Part]:
    """Two parts of a service; here both are in this process."""
    memory = SharedMemory(3)
    return Part(memory, 0, 0, 2), Part(memory, 1, 1, 2)


def run_takers(what: str) -> list[list[float]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.concurrency.takers", what], capture_output=True, text=True, check=True
    )
    return [[float(number) for number in line.split()] for line in done.stdout.splitlines()]


def test_processes_take_exactly_the_requests_of_a_limit() -> None:
    taken = sum(number for (number,) in run_takers("requests"))
    refilled = LIMIT / 60 * (SECONDS + 2)
    assert LIMIT <= taken <= LIMIT + refilled


def test_no_process_gets_a_place_over_the_limit_and_each_gets_its_turns() -> None:
    results = run_takers("places")
    assert len(results) == 3
    for most, turned in results:
        assert most <= 4
        assert turned > 10


async def test_a_share_counts_the_tenants_and_places_of_all_processes(parts: tuple[Part, Part]) -> None:
    here, there = (Turns(10, crowd=4, common=part.amounts("searches")) for part in parts)
    await here.acquire(ONE)
    await here.acquire(ONE)
    assert here.share == 30
    await there.acquire(OTHER)
    await asyncio.sleep(2 * COUNTED_FOR)
    assert (here.share, there.share) == (2, 2)
    waiting = asyncio.create_task(there.acquire(ONE))
    await asyncio.sleep(3 * LOOK_AGAIN)
    assert not waiting.done()
    assert there.held(ONE) == 2
    here.release(ONE)
    async with asyncio.timeout(60):
        await waiting
    assert here.held(ONE) == 2


async def test_a_tenant_that_is_alone_has_the_places_of_every_process(parts: tuple[Part, Part]) -> None:
    here, there = (Turns(2, common=part.amounts("connections")) for part in parts)
    for turns in (here, here, there, there):
        async with asyncio.timeout(60):
            await turns.acquire(ONE)
    assert (here.taken, there.taken, here.held(ONE)) == (2, 2, 4)


async def test_the_place_of_a_process_that_died_is_free(parts: tuple[Part, Part]) -> None:
    here, there = (Turns(10, common=part.amounts("searches")) for part in parts)
    await here.acquire(ONE, most=1)
    waiting = asyncio.create_task(there.acquire(ONE, most=1))
    await asyncio.sleep(3 * LOOK_AGAIN)
    assert not waiting.done()
    parts[0].memory.clear(parts[0].place)
    async with asyncio.timeout(60):
        await waiting


async def test_bytes_are_counted_in_all_processes(parts: tuple[Part, Part]) -> None:
    here, there = (ByteBudget(10, 40, part.amounts("bodies")) for part in parts)
    assert here.take(ONE, 6)
    assert there.take(OTHER, 10)
    waiting = asyncio.create_task(there.acquire(ONE, 5))
    await asyncio.sleep(3 * LOOK_AGAIN)
    assert not waiting.done()
    here.release(ONE, 6)
    async with asyncio.timeout(60):
        await waiting
    assert not here.take(ONE, 6)


def test_connections_of_an_address_are_counted_in_all_processes(parts: tuple[Part, Part]) -> None:
    here, there = (Occupancy(per_address=2, part=part) for part in parts)
    assert here.enter("192.0.2.1")
    assert there.enter("192.0.2.1")
    assert not here.enter("192.0.2.1")
    assert here.enter("192.0.2.2")
    here.leave("192.0.2.1")
    there.leave("192.0.2.1")
    assert there.enter("192.0.2.1")


def test_a_change_of_a_tenant_begins_a_generation_in_every_process(parts: tuple[Part, Part]) -> None:
    here, there = (part.generations() for part in parts)
    before, others = there.current(ONE), there.current(OTHER)
    here.advance(ONE)
    after = there.current(ONE)
    assert before != after == here.current(ONE)
    there.advance(ONE)
    assert here.current(ONE) != after
    assert here.current(OTHER) == others


def test_more_tenants_than_slots_replace_those_that_hold_nothing(parts: tuple[Part, Part]) -> None:
    here, there = parts
    held, generations = here.amounts("searches"), there.generations()
    assert held.take(ONE, 1, 0, 1)
    before = generations.current(OTHER)
    for number in range(2 * SETS * WAYS):
        generations.advance(UUID(int=(number + 100) * 0x9E3779B97F4A7C15 << 32 & (1 << 128) - 1))
    assert not there.amounts("searches").take(ONE, 1, 0, 1)
    assert generations.current(OTHER) != before


def test_a_tenant_that_has_waited_is_replaced_as_others(parts: tuple[Part, Part]) -> None:
    here, there = (part.amounts("searches") for part in parts)
    assert here.take(ONE, 1, 0, 1)
    assert not there.take(ONE, 1, 0, 1)
    for amounts in (here, there):
        amounts.publish(ONE, 0.0)
    generations = parts[0].generations()
    before = generations.current(ONE)
    for number in range(2 * SETS * WAYS):
        generations.advance(UUID(int=(number + 100) * 0x9E3779B97F4A7C15 << 32 & (1 << 128) - 1))
    assert generations.current(ONE) != before


def test_no_active_tenant_is_missing_however_many_there_are(parts: tuple[Part, Part]) -> None:
    here, there = (part.amounts("searches") for part in parts)
    tenants = [UUID(int=number * 0x9E3779B97F4A7C15 << 32 & (1 << 128) - 1) for number in range(1, 2_001)]
    for tenant in tenants:
        here.enter(tenant)
    time.sleep(COUNTED_FOR)
    assert (here.count_active(), there.count_active()) == (2_000, 2_000)
    for tenant in tenants[ACTIVE // 2 :]:
        there.enter(tenant)
    time.sleep(COUNTED_FOR)
    assert 2_000 <= here.count_active() <= 2 * 2_000
    # They leave in another order than they came.
    for left, tenant in enumerate(tenants[::7] + [t for n, t in enumerate(tenants) if n % 7], 1):
        here.leave(tenant)
        there.leave(tenant)
        if left % 100 == 0:
            time.sleep(COUNTED_FOR)
            active = here.count_active()
            assert active >= 2_000 - left
            assert active == 2_000 - left or active > ACTIVE


def test_an_active_tenant_is_counted_although_another_has_its_cells(parts: tuple[Part, Part]) -> None:
    here, there = (part.amounts("searches") for part in parts)
    tenants = [UUID(int=number) for number in range(1, 2 * ACTIVE, 2)]
    for tenant in tenants:
        here.enter(tenant)
    # All tenants of one set: more than it has slots.
    for number in range(2 * WAYS):
        there.enter(UUID(int=1 + (number + 1) * SETS))
    time.sleep(COUNTED_FOR)
    assert there.count_active() == len({*tenants, *(UUID(int=1 + (n + 1) * SETS) for n in range(2 * WAYS))})


def test_the_total_of_the_shares_is_what_was_divided(parts: tuple[Part, Part]) -> None:
    memory = parts[0].memory
    assert [Part(memory, n, n, 3).share_of(10) for n in range(3)] == [4, 3, 3]
    assert Part(memory, 2, 2, 3).share_of(1) == 1


def test_a_change_of_a_tenant_begins_a_generation_of_this_tenant_only() -> None:
    generations = Generations()
    before, others = generations.current("one"), generations.current("other")
    generations.advance("one")
    after = generations.current("one")
    assert before != after
    generations.advance("one")
    assert generations.current("one") not in (before, after)
    assert generations.current("other") == others


def test_changes_of_more_tenants_than_are_remembered_begin_a_generation_of_all() -> None:
    generations = Generations()
    generations.advance("one")
    seen = {tenant: generations.current(tenant) for tenant in ("one", "other")}
    for number in range(REMEMBERED):
        generations.advance(number)
    assert all(generations.current(tenant) != before for tenant, before in seen.items())
    generations.advance("one")
    assert generations.current("one") > generations.current("other") > seen["one"]


def test_a_write_is_noted_for_its_tenant() -> None:
    writes, before = LastWrites(), time.monotonic()
    writes.note(UUID(int=5))
    assert before <= writes.at(UUID(int=5)) <= time.monotonic()
    assert writes.at(UUID(int=6)) == 0
    assert writes.at(UUID(int=5 + CELLS)) > 0, "a shared cell errs on the safe side"


def test_processes_see_each_others_writes() -> None:
    memory = SharedMemory(2)
    first, second = (LastWrites(memory.last_writes) for _ in range(2))
    first.note(UUID(int=7))
    assert second.at(UUID(int=7)) > 0
    memory.clear(0)
    assert second.at(UUID(int=7)) > 0, "the process may have ended after its write"
