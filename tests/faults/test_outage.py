"""When callers are refused because the database is down, how long they wait, and when they are served again."""

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
"""Time limit in seconds for connecting."""
TURN = 1.0
"""Time limit in seconds for waiting for a turn."""
SHORT = 0.2
"""Seconds that callers wait while the state of the database is in doubt."""
AWAY = "the database is not reachable at the moment"
SLEEP = parse_statement("sleep", "select pg_sleep(:seconds)")


class ProbedOutage:
    """An `Outage` with a scripted probe and a clock that the test moves."""

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
        self.outage.record_answer(asked)

    def _cut(self) -> None:
        self.cuts += 1

    async def enter(self, failure: Exception | None = None) -> list[BaseException | None]:
        """The outcome for each of many callers when the probe ends in `failure`."""
        self.failure = failure
        self.free.clear()
        entering = [asyncio.create_task(self.outage.wait_until_reachable()) for _ in range(CALLERS)]
        await asyncio.sleep(0)
        self.free.set()
        return await asyncio.gather(*entering, return_exceptions=True)


@pytest.fixture
async def probed() -> AsyncIterator[ProbedOutage]:
    """One whose connection has just been lost."""
    probed = ProbedOutage()
    await probed.outage.wait_until_reachable()
    probed.outage.mark_suspect()
    yield probed
    await probed.outage.close()


async def test_one_probe_decides_for_all_callers(probed: ProbedOutage) -> None:
    for tries in (1, 2):
        outcomes = await probed.enter(ConnectionError())
        assert all(isinstance(error, DatabaseUnavailable) for error in outcomes)
        assert probed.tries == tries
    assert await probed.enter() == [None] * CALLERS
    assert probed.tries == 3
    assert await probed.enter() == [None] * CALLERS
    assert probed.tries == 3


async def test_callers_are_refused_until_a_slow_probe_succeeds(probed: ProbedOutage) -> None:
    waiting = asyncio.create_task(probed.outage.wait_until_reachable())
    await asyncio.sleep(0)
    probed.now += PATIENCE
    for _ in range(3):  # one request waits only once
        with pytest.raises(DatabaseUnavailable):
            await probed.outage.wait_until_reachable()
    probed.now += PATIENCE
    probed.free.set()
    await waiting
    await probed.outage.wait_until_reachable()
    assert probed.tries == 1


async def test_only_a_response_to_a_later_request_ends_a_doubt(probed: ProbedOutage) -> None:
    waiting = asyncio.create_task(probed.outage.wait_until_reachable())
    await asyncio.sleep(0)
    probed.outage.record_answer(probed.now - 0.1)
    await asyncio.sleep(0)
    assert not waiting.done()
    probed.outage.record_answer(probed.now)
    await waiting
    await probed.outage.wait_until_reachable()


async def test_connections_are_closed_when_all_are_silent(probed: ProbedOutage) -> None:
    await probed.enter(ConnectionRefusedError())
    assert probed.cuts == 0
    probed.now += 1
    await probed.enter(TimeoutError())
    assert probed.cuts == 1
    probed.free.clear()
    waiting = asyncio.create_task(probed.outage.wait_until_reachable())
    await asyncio.sleep(0)
    probed.outage.record_answer(probed.now - 10)  # the response to an older request, on a working connection
    probed.free.set()
    with pytest.raises(DatabaseUnavailable):
        await waiting
    assert probed.cuts == 1


async def test_a_doubt_shortens_only_attempts_already_in_progress(
    probed: ProbedOutage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.outage.PATIENCE", 0.01)

    async def attempt() -> None:
        async with probed.outage.limit(asyncio.get_running_loop().time() + 60):
            await asyncio.Event().wait()

    before = asyncio.create_task(attempt())
    await asyncio.sleep(0)
    probed.outage.mark_suspect()
    probed.outage.record_answer(probed.now)
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
    """A small pool through the proxy with short time limits; the parameter is the limit for connecting."""
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
    """The outcome of a statement that takes `seconds`: "done", or the reason of its refusal."""
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
async def test_callers_are_served_again_once_a_slow_connection_is_open(
    database: Database, database_proxy: FaultProxy
) -> None:
    database_proxy.pause = 2 * SHORT
    database_proxy.reset_connections()
    await asyncio.sleep(0.05)
    assert await enter(database) == AWAY
    await wait_until_done(database)
    # Every connection is opened again, even if that is slow.
    assert await asyncio.gather(*(enter(database) for _ in range(POOL))) == ["done"] * POOL


async def test_open_connections_work_while_no_new_one_can_be_opened(
    database: Database, database_proxy: FaultProxy
) -> None:
    await database.engine.dispose()
    async with database.platform_session(), database.platform_session():
        database_proxy.pause = 60
        assert await enter(database) == AWAY
    for _ in range(3):
        assert await asyncio.gather(*(enter(database) for _ in range(POOL - 1))) == ["done"] * (POOL - 1)


@pytest.mark.slow
async def test_a_server_that_goes_silent_during_statements_is_down_and_not_busy(
    database: Database, database_proxy: FaultProxy
) -> None:
    running = [asyncio.create_task(enter(database, 60.0)) for _ in range(POOL)]
    await asyncio.sleep(0.1)
    assert await enter(database) == BUSY
    assert await database.answers(60)
    database_proxy.fault = "black hole"
    assert await enter(database) == AWAY
    # Statements are cancelled long before their own time limit, so connections are free when the server returns.
    assert await asyncio.gather(*running) == [AWAY] * POOL
    assert database.pool_use.in_use == 0
    assert await enter(database) == AWAY
    database_proxy.fault = "none"
    await wait_until_done(database)


@pytest.mark.slow
async def test_many_callers_of_a_silent_server_share_one_connection_attempt(
    database: Database, database_proxy: FaultProxy
) -> None:
    connections = database_proxy.accepted
    database_proxy.fault = "black hole"
    assert set(await asyncio.gather(*(enter(database) for _ in range(10 * POOL)))) == {AWAY}
    # Callers with a turn waited on their connections; one more connection was opened as a probe.
    assert database_proxy.accepted <= connections + 1
    database_proxy.fault = "none"
    await wait_until_done(database)


@pytest.mark.parametrize("error", [FileNotFoundError("mine"), TimeoutError("mine")])
async def test_other_errors_do_not_count_as_database_failures(
    database: Database, error: OSError, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="app.db"), pytest.raises(type(error), match="mine"):
        async with database.platform_session():
            raise error
    assert not caplog.records
    assert await enter(database) == "done"
