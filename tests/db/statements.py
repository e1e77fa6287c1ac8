"""Statements that reveal the state of a session."""

import asyncpg

from app.db.database import Database
from app.db.statements import parse_statement

CURRENT = parse_statement("current", "select current_setting('app.current_tenant', true)")
COUNT = parse_statement("count", "select count(*) from entries")
SLEEP = parse_statement("sleep", "select pg_sleep(:seconds)")
PID = parse_statement("pid", "select pg_backend_pid()")
DIVIDE = parse_statement("divide", "select 1 / :divisor::integer")


async def leftover(database: Database) -> str | None:
    """The tenant that is still set on an idle pooled connection."""
    async with database.engine.connect() as pooled:
        raw = await pooled.get_raw_connection()
        connection: asyncpg.Connection[asyncpg.Record] = raw.driver_connection  # type: ignore[assignment]
        assert not connection.is_in_transaction()
        value: str | None = await connection.fetchval(CURRENT.sql)
        return value
