"""A pooler that shares connections is recognized, and the start refuses what it cannot do."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from pydantic import SecretStr

from app.composition.database import PREPARATION_LOCK, open_database, prepare
from app.db.schema.catalog import OWN_PID, Pooler, check_pooler, find_pooler
from app.errors import ConfigurationError
from app.settings import DatabaseSettings, Settings
from tests.fixtures.database.bouncer import bounced
from tests.fixtures.database.cluster import TestDatabase, connected

ROOT = Path(__file__).parents[3]
LOCKED = f"select count(*) from pg_locks where locktype = 'advisory' and objid = {PREPARATION_LOCK & 0xFFFFFFFF}"


async def test_the_database_itself_is_not_a_pooler(fresh_database: TestDatabase) -> None:
    assert await find_pooler(fresh_database.service_dsn, "DATABASE_URL") is None


async def test_a_pooler_that_keeps_a_connection_for_each_client_counts_as_none(fresh_database: TestDatabase) -> None:
    async with bounced(fresh_database, connections=4, mode="session") as dsn:
        assert await find_pooler(dsn, "DATABASE_URL") is None


@pytest.mark.parametrize("connections", [1, 3])
@pytest.mark.parametrize("prepared", [False, True])
async def test_a_pooler_that_shares_connections_is_recognized(
    fresh_database: TestDatabase, connections: int, prepared: bool
) -> None:
    async with bounced(fresh_database, connections, prepared=prepared) as dsn:
        for _ in range(3):
            assert await find_pooler(dsn, "DATABASE_URL") == Pooler(keeps_prepared=prepared)


@contextlib.asynccontextmanager
async def busy(dsn: str, clients: int) -> AsyncIterator[None]:
    """Clients that use the address all the time."""

    async def use() -> None:
        client = await asyncpg.connect(dsn, statement_cache_size=0)
        try:
            while True:
                await client.execute("select pg_sleep(0.002)")
        finally:
            client.terminate()

    using = [asyncio.create_task(use()) for _ in range(clients)]
    try:
        yield
    finally:
        for task in using:
            task.cancel()
        await asyncio.wait(using)


@pytest.mark.parametrize("prepared", [False, True])
async def test_a_busy_pooler_is_recognized(fresh_database: TestDatabase, prepared: bool) -> None:
    async with bounced(fresh_database, 3, prepared=prepared) as dsn, busy(dsn, 6):
        for _ in range(5):
            assert await find_pooler(dsn, "DATABASE_URL") == Pooler(keeps_prepared=prepared)


async def test_prepared_statements_are_refused_if_the_pooler_loses_them(fresh_database: TestDatabase) -> None:
    async with bounced(fresh_database, 3) as dsn:
        await check_pooler(dsn, prepared=False)
        with pytest.raises(ConfigurationError, match=r"DATABASE_PREPARED_STATEMENTS: .* set it to off"):
            await check_pooler(dsn, prepared=True)
        settings = Settings(database=DatabaseSettings(url=SecretStr(dsn)))
        with pytest.raises(ConfigurationError, match=r"set it to off"):
            async with open_database(settings):
                pass


async def test_prepared_statements_are_accepted_if_the_pooler_keeps_them(fresh_database: TestDatabase) -> None:
    async with bounced(fresh_database, 3, prepared=True) as dsn:
        await check_pooler(dsn, prepared=True)


async def test_the_check_of_the_start_passes_through_a_pooler_that_others_have_used(
    fresh_database: TestDatabase,
) -> None:
    """Statements that another process prepared stay on the shared connection, under the names that all use."""
    program = "import asyncio, sys; from app.composition.database import check_database as check;"
    async with bounced(fresh_database, 1) as dsn:
        for _ in range(2):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", f"{program} asyncio.run(check(sys.argv[1]))", dsn, cwd=ROOT
            )
            assert await process.wait() == 0


async def test_migrations_refuse_a_pooler_and_leave_no_lock(fresh_database: TestDatabase) -> None:
    async with bounced(fresh_database, 2) as dsn:
        with pytest.raises(ConfigurationError, match=r"DATABASE_ADMIN_URL: .* the address of the database itself"):
            await prepare(dsn, service_role=None, model=None)
        async with connected(fresh_database.superuser_dsn) as superuser:
            assert await superuser.fetchval(LOCKED) == 0
            assert await superuser.fetchval(OWN_PID) == superuser.get_server_pid()
