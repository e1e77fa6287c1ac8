"""Detect a pooler that shares connections between transactions, such as PgBouncer in transaction mode."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

import asyncpg

from app.db.schema.catalog import connect, using
from app.errors import ConfigurationError

ROUNDS = 20
"""Tries to get the same connection to the server for two clients. An idle pooler needs one."""

OWN_PID = "select pg_backend_pid()"


@dataclass(frozen=True, slots=True)
class Pooler:
    """A pooler that gives a connection to another client after each transaction.

    `keeps_prepared`: it has the statements of each client prepared on every connection that it gives to the client.
    """

    keeps_prepared: bool


async def find_pooler(dsn: str, setting: str) -> Pooler | None:
    """The pooler at the address of `setting`, if there is one that shares connections.

    Raises ConfigurationError and DatabaseUnavailable.
    """
    async with using(await connect(dsn, setting)) as first:
        if await _is_direct(first):
            return None
        async with using(await connect(dsn, setting)) as second:
            return await _compare(first, second)


async def _is_direct(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    # A pooler gives each client a key of its own for cancellation, with a number that is not the server process's.
    return bool(await connection.fetchval(OWN_PID) == connection.get_server_pid())


async def _compare(
    first: asyncpg.Connection[asyncpg.Record], second: asyncpg.Connection[asyncpg.Record]
) -> Pooler | None:
    """Whether two clients come to the same server process, and can each have a prepared statement of one name there."""
    for _ in range(ROUNDS):
        name = f"pooler_{uuid4().hex}"
        try:
            async with first.transaction():
                prepared = await first.prepare(OWN_PID, name=name)
                before = await prepared.fetchval()
            async with second.transaction():
                other = await (await second.prepare(OWN_PID, name=name)).fetchval()
            after = await prepared.fetchval()
        except (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError):
            return Pooler(keeps_prepared=False)
        if other == before or after not in (before, other):  # the statement was prepared on these two
            return Pooler(keeps_prepared=True)
    return None


async def check_pooler(dsn: str, *, prepared: bool) -> None:
    """Raise ConfigurationError if prepared statements are on and a pooler at DATABASE_URL loses them."""
    if prepared:
        check_keeps(await find_pooler(dsn, "DATABASE_URL"))


def check_keeps(pooler: Pooler | None) -> None:
    """Raise ConfigurationError if a pooler at DATABASE_URL loses prepared statements."""
    if pooler is not None and not pooler.keeps_prepared:
        raise ConfigurationError(
            "DATABASE_PREPARED_STATEMENTS",
            "the pooler at DATABASE_URL shares connections and keeps no prepared statements",
            "set it to off, or use PgBouncer 1.21 or newer with max_prepared_statements",
        )


async def check_direct(connection: asyncpg.Connection[asyncpg.Record], dsn: str, setting: str) -> None:
    """Raise ConfigurationError if the address, to which the connection is open, is that of such a pooler.

    It would keep a lock of the session, which no later migration gets.
    """
    if not await _is_direct(connection) and await find_pooler(dsn, setting) is not None:
        raise ConfigurationError(
            setting,
            "this is the address of a pooler that shares connections",
            "migrations need the address of the database itself",
        )
