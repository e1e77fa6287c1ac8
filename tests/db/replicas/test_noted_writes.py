"""A transaction that may have written is recognized by its statements, without asking the server."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.db.database import Database
from app.db.replicas import Probe, Replicas
from app.db.statements import Order, Statement, load_statements, parse_statement
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.database.statements import query_modules

TENANT = UUID(int=0xA1)
WRITE = parse_statement("test.write", "update tenants set name = name where id = :tenant_id")
DIVIDE = parse_statement("test.divide", "select 1 / count(*) from entries")
READ = parse_statement("test.read", "select count(*) from entries")
CHANGE = re.compile(r"\b(Insert|Update|Delete|Merge) on ")
FUNCTION = re.compile(r"\b([a-z_]+)\s*\(")
VOLATILE = """
select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where p.provolatile = 'v' and n.nspname not in ('pg_catalog', 'information_schema')"""


class Noted(Replicas):
    """No replica, and the tenants whose writes were noted."""

    def __init__(self, dsn: str) -> None:
        super().__init__(Probe(dsn), [], staleness=5, check=_pass)
        self.tenants: list[UUID] = []

    def note_write(self, tenant_id: UUID) -> None:
        self.tenants.append(tenant_id)


async def _pass(_: str) -> None:
    """Every address is fit for use."""


@pytest.fixture
async def database(fresh_database: TestDatabase) -> AsyncIterator[Database]:
    async with connected(fresh_database.superuser_dsn) as superuser:
        await superuser.execute(
            "insert into tenants (id, slug, name, model_id)"
            f" select '{TENANT}', 'one', 'One', id from embedding_models limit 1"
        )
    database = Database(fresh_database.service_dsn, pool_size=1)
    yield database
    await database.close()


async def run(database: Database, *statements: Statement, **parameters: Any) -> list[str]:
    """Run statements in one session; returns all texts that went to the server."""
    sent: list[str] = []
    async with database.engine.connect() as pooled:
        driver: asyncpg.Connection[Any] = (await pooled.get_raw_connection()).driver_connection  # type: ignore[assignment]

    def note(query: asyncpg.connection.LoggedQuery) -> None:
        sent.append(query.query)

    driver.add_query_logger(note)
    try:
        async with database.tenant_session(TENANT) as session:
            for statement in statements:
                await session.fetch(statement, **parameters)
    finally:
        await asyncio.sleep(0)  # loggers are called after the statement
        driver.remove_query_logger(note)
    return sent


async def test_only_writes_are_noted_and_no_statement_is_added(database: Database) -> None:
    alone = [await run(database, READ), await run(database, READ, WRITE)]
    database.replicas = noted = Noted(database.dsn)
    assert await run(database, READ) == alone[0]
    assert noted.tenants == []
    assert await run(database, READ, WRITE) == alone[1]
    assert noted.tenants == [TENANT]


async def test_a_write_is_noted_after_its_commit_and_not_if_it_failed(database: Database) -> None:
    database.replicas = noted = Noted(database.dsn)
    async with database.tenant_session(TENANT) as session:
        await session.execute(WRITE)
        assert noted.tenants == []
    assert noted.tenants == [TENANT]
    with pytest.raises(asyncpg.DivisionByZeroError):
        await run(database, WRITE, DIVIDE)
    assert noted.tenants == [TENANT]


async def test_a_write_within_a_query_is_noted(database: Database) -> None:
    database.replicas = noted = Noted(database.dsn)
    changing = parse_statement(
        "test.changing",
        "with changed as (update tenants set name = name where id = :tenant_id returning id) table changed",
    )
    async with database.tenant_session(TENANT) as session:
        rows = [row async for batch in session.stream(changing, 10) for row in batch]
    assert len(rows) == 1
    assert noted.tenants == [TENANT]


async def test_a_statement_that_counts_as_reading_cannot_write(fresh_database: TestDatabase) -> None:
    """The planner finds no change in it, and every function of the schema that it calls may not write."""
    checked = 0
    async with connected(fresh_database.service_dsn) as service:
        volatile = {row[0] for row in await service.fetch(VOLATILE)}
        assert "claim_job" in volatile
        for module in query_modules():
            for statement in load_statements(module).values():
                if statement.writes:
                    continue
                assert not volatile.intersection(FUNCTION.findall(statement.sql)), statement.name
                if "{direction}" in statement.sql:
                    statement = statement.ordered(
                        Order("tag" if statement.name.endswith("list_tags") else "created_at", True)
                    )
                if "{model_id}" in statement.sql:
                    statement = statement.literal(model_id=1, dimensions=16, tenant_id=TENANT)
                nothing = [None] * len(statement.parameters)
                plan = await service.fetch(f"explain (generic_plan) {statement.sql}", *nothing)
                assert not CHANGE.search("\n".join(row[0] for row in plan)), statement.name
                checked += 1
    assert checked > 50
