"""The first searches of a process and of a connection find everything ready."""

from __future__ import annotations

import asyncio

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.session import PlatformSession
from app.db.statements import parse_statement
from app.knowledge.search.service import Rehearsal
from tests.fixtures.database.cluster import connected
from tests.fixtures.searching import make_search
from tests.knowledge.writing import write

PLANS = parse_statement("plans", "select statement from pg_prepared_statements")
PROCESS = parse_statement("process", "select pg_backend_pid()")

IDLE = """
select count(*) from pg_stat_activity where datname = current_database() and usename = 'kb_service' and pid <> all ($1)
   and state = 'idle' and query in ('rollback', 'select 1')
"""
"""New connections whose last statement was the end of a rehearsal, or the question whether the database is up."""


async def planned(session: PlatformSession) -> str:
    return " ".join(row["statement"] for row in await session.fetch(PLANS))


def assert_planned(statements: str) -> None:
    assert all(part in statements for part in ("keyword.search", "from embeddings", "left join assets"))


async def test_all_connections_are_open_and_have_their_plans(services: Services, service_dsn: str) -> None:
    database = Database(service_dsn, pool_size=3)
    try:
        async with Rehearsal(database, services.providers).keep_warm():
            assert database.engine.pool.checkedin() == 3  # type: ignore[attr-defined]
            async with (
                database.platform_session() as first,
                database.platform_session() as second,
                database.platform_session() as third,
            ):
                for session in (first, second, third):
                    assert_planned(await planned(session))
    finally:
        await database.close()


async def test_a_rehearsed_connection_searches_without_new_plans(
    services: Services, tenant: Tenant, service_dsn: str
) -> None:
    await write(services, tenant, "harbour words", "sailing boats")
    database = Database(service_dsn, pool_size=1)
    try:
        async with Rehearsal(database, services.providers).keep_warm():
            async with database.platform_session() as session:
                before = await session.fetch(PLANS)
            await make_search(services, database).search(tenant.id, SearchQuery(query="harbour boats"))
            async with database.platform_session() as session:
                assert await session.fetch(PLANS) == before
    finally:
        await database.close()


async def test_an_ended_connection_is_replaced_before_a_caller_comes(
    services: Services, service_dsn: str, superuser_dsn: str
) -> None:
    database = Database(service_dsn, pool_size=2)
    try:
        async with Rehearsal(database, services.providers).keep_warm():
            async with database.platform_session() as one, database.platform_session() as other:
                ended = [await session.fetch_value(PROCESS) for session in (one, other)]
            async with connected(superuser_dsn) as superuser, asyncio.timeout(30):
                for process in ended:
                    await superuser.execute("select pg_terminate_backend($1)", process)
                while await superuser.fetchval(IDLE, ended) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                while database.engine.pool.checkedin() < 2:  # type: ignore[attr-defined]  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            async with database.platform_session() as session:
                assert_planned(await planned(session))
                assert await session.fetch_value(PROCESS) not in ended
    finally:
        await database.close()


async def test_a_database_that_is_down_keeps_no_places_and_no_start_waiting(services: Services) -> None:
    database = Database("postgresql://absent@127.0.0.1:1/nothing", pool_size=3)
    try:
        async with Rehearsal(database, services.providers).keep_warm():
            assert database.pool_use.in_use == 0
            await database._warmth.look()
            assert database.pool_use.in_use == 0
    finally:
        await database.close()
