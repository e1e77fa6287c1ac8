"""Who asks a database that is away, and how long the others wait for the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from app.db.outage import LONGEST_PAUSE, PATIENCE, Outage
from app.db.session import Database
from app.db.statements import parse_statement
from app.errors import DatabaseUnavailable
from tests.db.cluster import TestDatabase
from tests.faults.conftest import dsn_through
from tests.faults.proxy import FaultProxy

CALLERS = 20
POOL = 3
SLEEP = parse_statement("sleep", "select pg_sleep(:seconds)")


class Door:
    """Something to open, by a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.tries = 0
        self.takes = PATIENCE
        self.shut = True
        self.free = asyncio.Event()
        self.free.set()
        self.outage = Outage(clock=lambda: self.now)

    async def enter(self) -> str:
        return await self.outage.attempt(self._open)

    async def _open(self) -> str:
        self.tries += 1
        await self.free.wait()
        if self.shut:
            self.now += self.takes
            raise self.outage.refuse(ConnectionError())
        return "open"

    async def crowd(self) -> tuple[int, list[str | BaseException]]:
        """How often it was tried while many wanted to enter, and what each of them got."""
        before = self.tries
        self.free.clear()
        entering = [asyncio.create_task(self.enter()) for _ in range(CALLERS)]
        await asyncio.sleep(0)
        self.free.set()
        return self.tries - before, await asyncio.gather(*entering, return_exceptions=True)


@pytest.fixture
async def door() -> Door:
    """One that was found shut, long enough ago to be tried again."""
    door = Door()
    with pytest.raises(DatabaseUnavailable):
        await door.enter()
    door.now += LONGEST_PAUSE
    return door


async def test_one_caller_asks_and_the_others_share_its_refusal(door: Door) -> None:
    tries, got = await door.crowd()
    assert all(isinstance(error, DatabaseUnavailable) for error in got)
    assert (tries, door.tries) == (1, 2)
    assert door.now == 100 + 2 * PATIENCE + LONGEST_PAUSE


async def test_one_caller_asks_and_the_others_follow_it_in(door: Door) -> None:
    door.shut = False
    tries, got = await door.crowd()
    assert tries == 1
    assert got == ["open"] * CALLERS
    assert (await door.crowd())[0] == CALLERS


async def test_a_silent_database_is_not_asked_twice_in_one_request(door: Door) -> None:
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable):
            await door.enter()
    assert door.tries == 2
    door.now += LONGEST_PAUSE
    with pytest.raises(DatabaseUnavailable):
        await door.enter()
    assert door.tries == 3


async def test_a_database_that_refuses_at_once_is_asked_again_at_once(door: Door) -> None:
    door.takes = 0.1
    for _ in range(5):
        with pytest.raises(DatabaseUnavailable):
            await door.enter()
    assert door.tries == 6
    door.shut = False
    assert await door.enter() == "open"


async def test_one_failure_beside_a_success_turns_nobody_away() -> None:
    door = Door()
    door.free.clear()
    failing = asyncio.create_task(door.enter())
    await asyncio.sleep(0)

    async def open_at_once() -> str:
        return "open"

    door.now += 0.1
    assert await door.outage.attempt(open_at_once) == "open"
    door.free.set()
    with pytest.raises(DatabaseUnavailable):
        await failing
    assert await door.outage.attempt(open_at_once) == "open"


@pytest.fixture
async def database(fresh_database: TestDatabase, database_proxy: FaultProxy) -> AsyncIterator[Database]:
    """A small pool through the proxy, with much patience for its own queue."""
    database = Database(
        dsn_through(database_proxy, fresh_database.name), pool_size=POOL, pool_timeout=60, connect_timeout=2
    )
    yield database
    database_proxy.fault = "none"
    await database.close()


async def test_a_silent_server_costs_a_crowd_no_more_than_one_caller(
    database: Database, database_proxy: FaultProxy
) -> None:
    async def enter() -> None:
        async with database.platform_session() as session:
            await session.fetch(SLEEP, seconds=0.0)

    async with AsyncExitStack() as stack:
        for _ in range(POOL):
            await stack.enter_async_context(database.platform_session())
    connections = database_proxy.accepted
    database_proxy.fault = "black hole"
    got = await asyncio.gather(*(enter() for _ in range(10 * POOL)), return_exceptions=True)
    assert all(isinstance(error, DatabaseUnavailable) for error in got)
    # Those that had a turn waited for a word on the connections they got; nobody behind them made another.
    assert database_proxy.accepted == connections
    database_proxy.fault = "none"
    async with asyncio.timeout(10):
        while True:  # it is asked again after a moment
            try:
                await enter()
            except DatabaseUnavailable:
                await asyncio.sleep(0.05)
            else:
                break
    await asyncio.gather(*(enter() for _ in range(POOL)))


async def test_a_database_that_seems_to_be_away_gets_less_time() -> None:
    door = Door()
    assert door.outage.patience(5.0) == 5.0
    with pytest.raises(DatabaseUnavailable):
        await door.enter()
    assert door.outage.patience(5.0) == PATIENCE
    assert door.outage.patience(0.5) == 0.5
    door.now += LONGEST_PAUSE
    door.shut = False
    assert await door.enter() == "open"
    assert door.outage.patience(5.0) == 5.0
