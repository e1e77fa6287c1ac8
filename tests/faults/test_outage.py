"""When callers are refused because the database is down, how long they wait for that, and when they no longer are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from app.db.database import Database
from app.db.outage import BUSY, PATIENCE, Outage
from app.db.statements import parse_statement
from app.errors import DatabaseUnavailable
from tests.faults.conftest import dsn_through
from tests.faults.proxy import FaultProxy
from tests.fixtures.database.cluster import TestDatabase

CALLERS = 20
POOL = 3
LIMIT = 1.5
"""Seconds that connecting may take here."""
TURN = 1.0
"""Seconds that a turn is waited for here."""
SHORT = 0.2
"""Seconds that callers wait here while the database is doubtful."""
AWAY = "the database is not reachable at the moment"
SLEEP = parse_statement("sleep", "select pg_sleep(:seconds)")


class Door:
    """Something that is asked to open, by a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.tries = 0
        self.cuts = 0
        self.failure: Exception | None = None
        self.free = asyncio.Event()
        self.outage = Outage(self._ask, self._cut, lambda: self.now)

    async def _ask(self) -> None:
        self.tries += 1
        asked = self.now
        await self.free.wait()
        if self.failure is not None:
            raise self.outage.refuse(self.failure) from self.failure
        self.outage.hear(asked)

    def _cut(self) -> None:
        self.cuts += 1

    async def enter(self, failure: Exception | None = None) -> list[BaseException | None]:
        """What each of many callers hears, when that is what comes of asking."""
        self.failure = failure
        self.free.clear()
        entering = [asyncio.create_task(self.outage.settle()) for _ in range(CALLERS)]
        await asyncio.sleep(0)
        self.free.set()
        return await asyncio.gather(*entering, return_exceptions=True)


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    """One that a connection has just been lost to."""
    door = Door()
    await door.outage.settle()
    door.outage.doubt()
    yield door
    await door.outage.close()


async def test_one_asks_and_all_hear_what_came_of_it(door: Door) -> None:
    for tries in (1, 2):
        heard = await door.enter(ConnectionError())
        assert all(isinstance(error, DatabaseUnavailable) for error in heard)
        assert door.tries == tries
    assert await door.enter() == [None] * CALLERS
    assert door.tries == 3
    assert await door.enter() == [None] * CALLERS
    assert door.tries == 3


async def test_what_is_slow_to_answer_is_refused_until_it_does_and_no_longer(door: Door) -> None:
    waiting = asyncio.create_task(door.outage.settle())
    await asyncio.sleep(0)
    door.now += PATIENCE
    for _ in range(3):  # within a request it is waited for once
        with pytest.raises(DatabaseUnavailable):
            await door.outage.settle()
    door.now += PATIENCE
    door.free.set()
    await waiting
    await door.outage.settle()
    assert door.tries == 1


async def test_an_answer_counts_when_it_was_asked_for_after_the_doubt(door: Door) -> None:
    waiting = asyncio.create_task(door.outage.settle())
    await asyncio.sleep(0)
    door.outage.hear(door.now - 0.1)
    await asyncio.sleep(0)
    assert not waiting.done()
    door.outage.hear(door.now)
    await waiting
    await door.outage.settle()


async def test_connections_are_cut_when_none_of_them_says_a_word(door: Door) -> None:
    await door.enter(ConnectionRefusedError())
    assert door.cuts == 0
    door.now += 1
    await door.enter(TimeoutError())
    assert door.cuts == 1
    door.free.clear()
    waiting = asyncio.create_task(door.outage.settle())
    await asyncio.sleep(0)
    door.outage.hear(door.now - 10)  # what had been asked long ago, of a connection that works
    door.free.set()
    with pytest.raises(DatabaseUnavailable):
        await waiting
    assert door.cuts == 1


async def test_an_attempt_in_progress_at_a_doubt_ends_soon_and_a_later_one_does_not(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.outage.PATIENCE", 0.01)

    async def attempt() -> None:
        async with door.outage.limit(asyncio.get_running_loop().time() + 60):
            await asyncio.Event().wait()

    before = asyncio.create_task(attempt())
    await asyncio.sleep(0)
    door.outage.doubt()
    door.outage.hear(door.now)
    after = asyncio.create_task(attempt())
    done, waiting = await asyncio.wait((before, after), timeout=10, return_when=asyncio.FIRST_COMPLETED)
    assert (done, waiting) == ({before}, {after})
    assert isinstance(before.exception(), TimeoutError)
    after.cancel()


@pytest.fixture
async def database(
    fresh_database: TestDatabase,
    database_proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Database]:
    """A small pool through the proxy, with little patience; the parameter is how long connecting may take."""
    monkeypatch.setattr("app.db.outage.PATIENCE", SHORT)
    database = Database(
        dsn_through(database_proxy, fresh_database.name),
        pool_size=POOL,
        pool_timeout=TURN,
        connect_timeout=getattr(request, "param", LIMIT),
    )
    async with AsyncExitStack() as stack:
        for _ in range(POOL):
            await stack.enter_async_context(database.platform_session())
    yield database
    database_proxy.pause, database_proxy.fault = 0.0, "none"
    await database.close()


async def enter(database: Database, seconds: float = 0.0) -> str:
    """How a statement of so many seconds fares."""
    try:
        async with database.platform_session() as session:
            await session.fetch(SLEEP, seconds=seconds)
    except DatabaseUnavailable as error:
        return str(error)
    return "done"


async def wait_until_done(database: Database) -> None:
    async with asyncio.timeout(60):
        while await enter(database) != "done":  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("database", [10.0], indirect=True)
async def test_a_database_that_is_slow_to_connect_to_is_refused_no_longer_than_that(
    database: Database, database_proxy: FaultProxy
) -> None:
    database_proxy.pause = 2 * SHORT
    database_proxy.reset_connections()
    await asyncio.sleep(0.05)
    assert await enter(database) == AWAY
    await wait_until_done(database)
    # Each connection is opened again, however long that takes.
    assert await asyncio.gather(*(enter(database) for _ in range(POOL))) == ["done"] * POOL


async def test_a_connection_that_cannot_be_opened_leaves_the_open_ones_usable(
    database: Database, database_proxy: FaultProxy
) -> None:
    await database.engine.dispose()
    async with database.platform_session(), database.platform_session():
        database_proxy.pause = 60
        assert await enter(database) == AWAY
    for _ in range(3):
        assert await asyncio.gather(*(enter(database) for _ in range(POOL - 1))) == ["done"] * (POOL - 1)


@pytest.mark.slow
async def test_a_server_that_falls_silent_under_statements_counts_as_down_and_not_as_busy(
    database: Database, database_proxy: FaultProxy
) -> None:
    running = [asyncio.create_task(enter(database, 60.0)) for _ in range(POOL)]
    await asyncio.sleep(0.1)
    assert await enter(database) == BUSY
    assert await database.answers(60)
    database_proxy.fault = "black hole"
    assert await enter(database) == AWAY
    # Running work is cancelled long before its own time limit, and leaves room when the server returns.
    assert await asyncio.gather(*running) == [AWAY] * POOL
    assert database.pool_use.in_use == 0
    assert await enter(database) == AWAY
    database_proxy.fault = "none"
    await wait_until_done(database)


async def test_a_silent_server_costs_a_crowd_no_more_than_one_try(
    database: Database, database_proxy: FaultProxy
) -> None:
    connections = database_proxy.accepted
    database_proxy.fault = "black hole"
    assert set(await asyncio.gather(*(enter(database) for _ in range(10 * POOL)))) == {AWAY}
    # Those that had a turn waited for a word on the connections they got; one more was made to ask.
    assert database_proxy.accepted <= connections + 1
    database_proxy.fault = "none"
    await wait_until_done(database)


@pytest.mark.parametrize("error", [FileNotFoundError("mine"), TimeoutError("mine")])
async def test_failures_of_other_things_are_not_those_of_the_database(
    database: Database, error: OSError, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="app.db"), pytest.raises(type(error), match="mine"):
        async with database.platform_session():
            raise error
    assert not caplog.records
    assert await enter(database) == "done"
