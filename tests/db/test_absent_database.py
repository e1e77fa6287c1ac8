"""A database that is slow, exhausted, killed or unreachable, as a session reports it."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from app.db.database import Database
from app.errors import DatabaseUnavailable
from tests.db.statements import COUNT, DIVIDE, PID, SLEEP, leftover
from tests.fixtures.database.cluster import connected
from tests.fixtures.database.seeded import Seeded


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
            async with connected(seeded.database.superuser_dsn) as superuser:
                assert await superuser.fetchval("select pg_terminate_backend($1, 5000)", pid)
            await session.fetch(COUNT)

    with pytest.raises(DatabaseUnavailable):
        await work()
    async with single.tenant_session(seeded.first) as session:
        assert await session.fetch_value(COUNT) > 0


async def test_connection_killed_while_idle_is_replaced_after_one_failure(seeded: Seeded, single: Database) -> None:
    async with single.tenant_session(seeded.first) as session:
        pid = await session.fetch_value(PID)
    async with connected(seeded.database.superuser_dsn) as superuser:
        assert await superuser.fetchval("select pg_terminate_backend($1, 5000)", pid)
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
