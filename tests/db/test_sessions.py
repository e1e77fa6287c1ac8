"""Sessions, and an absent database."""

import asyncio
import random
from contextlib import AsyncExitStack
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest
from sqlalchemy.pool import QueuePool

from app.db.database import Database
from app.db.outage import Outage, is_outage
from app.db.server import LEAST_SHARE
from app.db.session import PlatformSession, TenantSession
from app.db.statements import parse_statement
from app.errors import DatabaseUnavailable
from tests.db.statements import COUNT, CURRENT, DIVIDE, PID, SLEEP, leftover
from tests.fixtures.database.cluster import TestDatabase, connected, fetchval
from tests.fixtures.database.seeded import Seeded

TENANTS_SEEN = parse_statement("seen", "select tenant_id, pg_sleep(:pause) from entries")
ASLEEP = "select wait_event = 'PgSleep' from pg_stat_activity where pid = $1"
TIME_LIMIT = parse_statement("time_limit", "select current_setting('statement_timeout')")
OWN_TENANT = parse_statement("own_tenant", "select :tenant_id::uuid")


@pytest.mark.slow
async def test_background_work_of_a_tenant_does_not_use_the_turns_of_its_callers(seeded: Seeded) -> None:
    """With several tenants active, each has a share of the connections; long work does not count against it."""
    database = Database(seeded.database.service_dsn, pool_size=LEAST_SHARE + 4, pool_timeout=2, crowd=1)
    long = timedelta(minutes=1)
    try:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(database.tenant_session(seeded.second))
            for _ in range(2):
                await stack.enter_async_context(database.tenant_session(seeded.first, background=long))
            for _ in range(LEAST_SHARE):
                await stack.enter_async_context(database.tenant_session(seeded.first))
            with pytest.raises(DatabaseUnavailable):
                await stack.enter_async_context(database.tenant_session(seeded.first))
    finally:
        await database.close()


async def test_background_work_has_its_own_time_limit(seeded: Seeded, single: Database) -> None:
    limit = timedelta(minutes=10)
    async with single.tenant_session(seeded.first, background=limit) as session:
        assert await session.fetch_value(TIME_LIMIT) == "10min"
    async with single.platform_session(background=limit) as platform:
        assert await platform.fetch_value(TIME_LIMIT) == "10min"
    async with single.tenant_session(seeded.first) as session:
        assert await session.fetch_value(TIME_LIMIT) == "30s"


async def test_the_session_binds_its_tenant(seeded: Seeded, single: Database) -> None:
    async with single.tenant_session(seeded.first) as session:
        assert await session.fetch_value(OWN_TENANT) == seeded.first
        with pytest.raises(TypeError, match="tenant_id"):
            await session.fetch_value(OWN_TENANT, tenant_id=seeded.first)
    async with single.platform_session() as platform:
        assert await platform.fetch_value(OWN_TENANT, tenant_id=seeded.second) == seeded.second


async def test_session_has_its_tenant_only_while_it_is_open(seeded: Seeded, single: Database) -> None:
    async with single.tenant_session(seeded.first) as session:
        assert await session.fetch_value(CURRENT) == str(seeded.first)
        assert session.tenant_id == seeded.first
    assert not await leftover(single)
    async with single.tenant_session(seeded.second) as session:
        assert await session.fetch_value(CURRENT) == str(seeded.second)
    async with single.platform_session() as platform:
        assert not await platform.fetch_value(CURRENT)


async def test_session_that_raises_leaves_no_tenant_and_no_change(seeded: Seeded, single: Database) -> None:
    delete = parse_statement("delete", "delete from entries")

    async def work() -> None:
        async with single.tenant_session(seeded.first) as session:
            assert await session.execute(delete) > 0
            raise LookupError

    with pytest.raises(LookupError):
        await work()
    assert not await leftover(single)
    async with single.tenant_session(seeded.first) as session:
        assert await session.fetch_value(COUNT) > 0


async def test_session_that_is_cancelled_leaves_no_tenant(seeded: Seeded, single: Database) -> None:
    async def work(opened: asyncio.Future[int]) -> None:
        async with single.tenant_session(seeded.first) as session:
            opened.set_result(await session.fetch_value(PID))
            await session.fetch(SLEEP, seconds=600.0)

    async with connected(seeded.database.superuser_dsn) as superuser:
        for _ in range(3):
            opened: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(work(opened))
            async with asyncio.timeout(60):
                pid = await opened
                while not await superuser.fetchval(ASLEEP, pid):  # noqa: ASYNC110 (Postgres has no event for it)
                    await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not await leftover(single)


async def test_mixed_tenants_on_few_connections_never_see_each_other(seeded: Seeded, pool: Database) -> None:
    """500 transactions over 3 connections, a fifth of them cancelled at a random moment."""
    chance = random.Random(7)  # noqa: S311
    foreign: list[UUID] = []
    finished = cancelled = 0

    async def work(tenant: UUID, pause: float) -> None:
        nonlocal finished
        async with pool.tenant_session(tenant) as session:
            rows = await session.fetch(TENANTS_SEEN, pause=pause)
            foreign.extend(row["tenant_id"] for row in rows if row["tenant_id"] != tenant)
            assert rows
        finished += 1

    async def watch(number: int) -> None:
        nonlocal cancelled
        tenant = (seeded.first, seeded.second)[number % 2]
        task = asyncio.create_task(work(tenant, chance.uniform(0, 0.0005)))
        if number % 5 == 0:
            await asyncio.sleep(chance.uniform(0, 0.02))
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            cancelled += 1

    for start in range(0, 500, 20):
        await asyncio.gather(*(watch(n) for n in range(start, start + 20)))
    assert foreign == []
    assert finished + cancelled == 500
    assert cancelled > 5
    for _ in range(3):
        assert not await leftover(pool)


async def test_platform_session_sees_no_tenants_rows(seeded: Seeded, pool: Database) -> None:
    async with pool.platform_session() as session:
        for table in (*seeded.tables, "tenants"):
            count = parse_statement("count", f"select count(*) from {table}")
            assert await session.fetch_value(count) == 0, table


async def test_unknown_tenant_sees_no_rows(pool: Database) -> None:
    async with pool.tenant_session(uuid4()) as session:
        assert await session.fetch_value(COUNT) == 0


async def test_text_in_place_of_a_tenant_is_refused(pool: Database) -> None:
    with pytest.raises(AttributeError):
        async with pool.tenant_session("' or true --"):  # type: ignore[arg-type]
            pass


async def test_sessions_cannot_be_constructed_directly(seeded: Seeded) -> None:
    outage = Outage(lambda: asyncio.sleep(0), lambda: None)
    async with connected(seeded.database.service_dsn) as connection:
        with pytest.raises(TypeError, match="created by Database"):
            TenantSession(connection, object(), outage, None, seeded.first)
        with pytest.raises(TypeError, match="created by Database"):
            PlatformSession(connection, None, outage, None)


@pytest.mark.parametrize(("last", "sizes"), [(0, []), (9, [9]), (20, [10, 10]), (25, [10, 10, 5])])
async def test_stream_returns_every_row_in_batches(
    seeded: Seeded, single: Database, last: int, sizes: list[int]
) -> None:
    numbers = parse_statement("numbers", "select generate_series(1, :last::integer)")
    async with single.tenant_session(seeded.first) as session:
        batches = [[row[0] for row in batch] async for batch in session.stream(numbers, 10, last=last)]
    assert [len(batch) for batch in batches] == sizes
    assert [number for batch in batches for number in batch] == list(range(1, last + 1))


async def test_stream_can_be_left_early(seeded: Seeded, single: Database) -> None:
    numbers = parse_statement("numbers", "select n from generate_series(1, :last::integer) n")
    async with single.tenant_session(seeded.first) as session:
        seen = []
        async for batch in session.stream(numbers, 10, last=1000):
            seen += [row["n"] for row in batch]
            if len(seen) >= 20:
                break
        assert seen == list(range(1, 21))
        assert await session.fetch_value(COUNT) > 0
    assert not await leftover(single)


async def test_setup_of_a_session_lasts_for_its_transaction(seeded: Seeded, single: Database) -> None:
    memory = parse_statement("memory", "select current_setting('work_mem')")
    async with single.tenant_session(seeded.first, setup="set local work_mem='9MB';") as session:
        assert await session.fetch_value(memory) == "9MB"
    async with single.tenant_session(seeded.first) as session:
        assert await session.fetch_value(memory) != "9MB"


async def test_lent_engine_is_not_closed(fresh_database: TestDatabase, database: Database) -> None:
    borrower = Database(fresh_database.service_dsn, engine=database.engine)
    async with borrower.platform_session() as session:
        assert await session.fetch_value(PID) > 0
    await borrower.close()
    async with database.platform_session() as session:
        assert await session.fetch_value(PID) > 0


async def test_statement_timeout_is_an_absent_database(seeded: Seeded) -> None:
    database = Database(seeded.database.service_dsn, pool_size=1, pool_timeout=20, statement_timeout=0.3)
    try:
        with pytest.raises(DatabaseUnavailable, match="took too long"):
            async with database.tenant_session(seeded.first) as session:
                await session.fetch(SLEEP, seconds=600.0)
        assert not await leftover(database)
        # The next session has the same connection, and a limit that a busy machine does not reach.
        async with database.tenant_session(seeded.second, background=timedelta(minutes=1)) as session:
            assert await session.fetch_value(COUNT) > 0
    finally:
        await database.close()


async def test_exhausted_pool_is_an_absent_database(seeded: Seeded) -> None:
    database = Database(seeded.database.service_dsn, pool_size=1, pool_timeout=0.2)
    try:
        async with database.tenant_session(seeded.first):
            with pytest.raises(DatabaseUnavailable):
                async with database.tenant_session(seeded.second):
                    pass
        async with database.tenant_session(seeded.second) as session:
            assert await session.fetch_value(COUNT) > 0
    finally:
        await database.close()


async def test_killed_connection_is_an_absent_database_once(seeded: Seeded, single: Database) -> None:
    async def work() -> None:
        async with single.tenant_session(seeded.first) as session:
            pid = await session.fetch_value(PID)
            assert await fetchval(seeded.database.superuser_dsn, "select pg_terminate_backend($1, 5000)", pid)
            await session.fetch(COUNT)

    with pytest.raises(DatabaseUnavailable):
        await work()
    async with single.tenant_session(seeded.first) as session:
        assert await session.fetch_value(COUNT) > 0


async def test_connection_killed_while_idle_is_replaced_after_one_failure(seeded: Seeded, single: Database) -> None:
    async with single.tenant_session(seeded.first) as session:
        pid = await session.fetch_value(PID)
    assert await fetchval(seeded.database.superuser_dsn, "select pg_terminate_backend($1, 5000)", pid)
    for _ in range(2):
        try:
            async with single.tenant_session(seeded.first) as session:
                assert await session.fetch_value(COUNT) > 0
            break
        except DatabaseUnavailable:
            continue
    else:
        pytest.fail("the dead connection was never replaced")


async def test_unreachable_server_is_an_absent_database(tmp_path_factory: pytest.TempPathFactory) -> None:
    nowhere = tmp_path_factory.mktemp("nowhere")
    database = Database(f"postgresql://kb_service:secret@/knowledge?host={nowhere}", connect_timeout=1)
    with pytest.raises(DatabaseUnavailable) as caught:
        async with database.platform_session():
            pass
    assert "secret" not in str(caught.value)
    assert str(nowhere) not in str(caught.value)
    await database.close()


async def test_database_that_refuses_the_first_connection_is_an_absent_database(seeded: Seeded) -> None:
    missing = Database(seeded.database.service_dsn.replace(seeded.database.name, "no_such_database"))
    with pytest.raises(DatabaseUnavailable) as caught:
        async with missing.platform_session():
            pass
    assert "no_such_database" not in str(caught.value)
    await missing.close()


async def test_mistakes_in_a_statement_are_not_an_absent_database(seeded: Seeded, single: Database) -> None:
    with pytest.raises(asyncpg.DivisionByZeroError):
        async with single.tenant_session(seeded.first) as session:
            await session.fetch(DIVIDE, divisor=0)
    with pytest.raises(asyncpg.DataError):
        async with single.tenant_session(seeded.first) as session:
            await session.fetch(DIVIDE, divisor="many")
    with pytest.raises(KeyError):
        async with single.tenant_session(seeded.first) as session:
            await session.fetch(DIVIDE)
    async with single.tenant_session(seeded.first) as session:
        assert await session.fetch_value(DIVIDE, divisor=1) == 1


REMOTE = "connection to the remote node kb_creator@db-1:5432 failed with the following error: "


@pytest.mark.parametrize(
    ("reason", "outage"),
    [
        ('FATAL:  role "kb_creator" is not permitted to log in', False),
        ('FATAL:  password authentication failed for user "kb_service"', False),
        ("FATAL:  the database system is starting up", True),
        ("Connection refused", True),
    ],
)
async def test_a_node_that_may_not_log_in_to_another_one_has_not_failed(
    caplog: pytest.LogCaptureFixture, reason: str, outage: bool
) -> None:
    error = asyncpg.PostgresError.new({"S": "ERROR", "V": "ERROR", "C": "08006", "M": REMOTE + reason})
    assert is_outage(error) is outage
    if outage:
        of_this_server = Outage(lambda: asyncio.sleep(0), lambda: None)
        assert "a node of the database's cluster" in str(of_this_server.refuse(error))
        assert not of_this_server.is_suspect
        assert [(record.levelname, bool(record.exc_info)) for record in caplog.records] == [("ERROR", True)]


STEPS = (*range(12), 15, 20, 30, 50)
"""Turns of the event loop before the cancellation."""


@pytest.mark.parametrize("old", [False, True], ids=["missing connections", "old connections"])
async def test_a_look_that_is_cancelled_gives_all_its_turns_back(pool: Database, old: bool) -> None:
    warmth = pool._warmth
    pooled = pool.engine.sync_engine.pool
    assert isinstance(pooled, QueuePool)
    cancelled = 0
    for steps in STEPS:
        if old:
            await warmth.look()
            for driver in warmth.opened:
                warmth.opened[driver] = -1e9
        else:
            warmth.end_all()
        look = asyncio.ensure_future(warmth.look())
        for _ in range(steps):
            await asyncio.sleep(0)
        cancelled += look.cancel()
        await asyncio.wait((look,))
        await asyncio.sleep(0)
        assert (pool._turns.taken, pooled.checkedout()) == (0, 0), f"after {steps} steps"
    assert cancelled > 5
