"""Transactions: the one place where a connection is told whose rows it may see.

`Database.tenant_session(tenant_id)` opens a transaction in which `app.current_tenant` is set, so that the
policies of Postgres show that tenant's rows and no others. Query functions take a `TenantSession`, which
nothing else can make: a query without a tenant is a type error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import orjson
from pgvector.asyncpg import register_vector
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.db.migration import sqlalchemy_url
from app.db.statements import Statement
from app.errors import DatabaseUnavailable

log = logging.getLogger("app.db")

Row = asyncpg.Record

AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.OutOfMemoryError,
    asyncpg.DiskFullError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    PoolTimeout,
    InterfaceError,
    OperationalError,
)
"""Failures of the database, not of the statement: the caller may try again."""


class _Session:
    """Runs statements on one connection, inside the transaction that its maker opened."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], opened_by: object) -> None:
        if opened_by is not _OPENED:
            raise TypeError("sessions are made by Database, which opens their transaction")
        self._connection = connection

    async def fetch(self, statement: Statement, **parameters: Any) -> Sequence[Row]:
        """All rows. Raises asyncpg.PostgresError."""
        return await self._connection.fetch(statement.sql, *[parameters[n] for n in statement.parameters])

    async def fetch_row(self, statement: Statement, **parameters: Any) -> Row | None:
        """The first row, or None."""
        return await self._connection.fetchrow(statement.sql, *[parameters[n] for n in statement.parameters])

    async def fetch_value(self, statement: Statement, **parameters: Any) -> Any:
        """The first column of the first row, or None."""
        return await self._connection.fetchval(statement.sql, *[parameters[n] for n in statement.parameters])

    async def execute(self, statement: Statement, **parameters: Any) -> int:
        """Run a statement without a result; returns the number of rows it touched."""
        status = await self._connection.execute(statement.sql, *[parameters[n] for n in statement.parameters])
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def stream(
        self, statement: Statement, batch: int, **parameters: Any
    ) -> AsyncIterator[Sequence[Row]]:
        """Rows through a cursor, `batch` at a time, for results that may be left early or do not fit memory."""
        cursor = await self._connection.cursor(
            statement.sql, *[parameters[n] for n in statement.parameters], prefetch=None
        )
        while rows := await cursor.fetch(batch):
            yield rows


class TenantSession(_Session):
    """One transaction in which only one tenant's rows exist."""

    def __init__(
        self, connection: asyncpg.Connection[asyncpg.Record], opened_by: object, tenant_id: UUID
    ) -> None:
        super().__init__(connection, opened_by)
        self.tenant_id = tenant_id


class PlatformSession(_Session):
    """One transaction without a tenant: tables are empty, and only the functions that cross tenants work."""


_OPENED = object()


class Database:
    """A pool of connections for a role that row-level security binds."""

    def __init__(
        self,
        dsn: str,
        *,
        pool_size: int = 10,
        pool_timeout: float = 5.0,
        connect_timeout: float = 5.0,
        statement_timeout: float = 30.0,
        prepared_statements: bool = True,
        engine: AsyncEngine | None = None,
    ) -> None:
        """Times are in seconds. `engine` lets a host application lend its own engine."""
        self._lent = engine is not None
        # First come, first served: the pool itself lets a caller that returns a connection take it again before
        # one that waits, and with many callers some would wait for seconds.
        self._turns = asyncio.Semaphore(pool_size)
        self._pool_size = pool_size
        self._taken = 0
        self._pool_timeout = pool_timeout
        self._statement_timeout = f"{int(statement_timeout * 1000)}ms"
        self.engine = engine or create_async_engine(
            sqlalchemy_url(dsn),
            pool_size=pool_size,
            max_overflow=0,
            # The connection used last has its plans made and its caches warm.
            pool_use_lifo=True,
            pool_timeout=pool_timeout,
            pool_recycle=1800,
            hide_parameters=True,
            connect_args={
                "timeout": connect_timeout,
                "statement_cache_size": 512 if prepared_statements else 0,
                "prepared_statement_cache_size": 0,
            },
        )
        event.listen(self.engine.sync_engine, "connect", _register_types)

    @asynccontextmanager
    async def tenant_session(self, tenant_id: UUID, *, setup: str = "") -> AsyncIterator[TenantSession]:
        """A transaction in which only the rows of `tenant_id` exist; commits on leaving, rolls back on error.

        `setup` is SQL text of this package run in the same round trip (planner settings of a leg).
        Raises DatabaseUnavailable when the database is away or a time limit is hit.
        """
        # The type is what makes the literal safe: only a UUID's own text reaches the statement.
        begin = f"select set_config('app.current_tenant', '{UUID(int=tenant_id.int)}', true);{setup}"
        async with self._transaction(begin) as connection:
            yield TenantSession(connection, _OPENED, tenant_id)

    @asynccontextmanager
    async def platform_session(self, *, setup: str = "") -> AsyncIterator[PlatformSession]:
        """A transaction in which no tenant is set."""
        begin = f"select set_config('app.current_tenant', '', true);{setup}"
        async with self._transaction(begin) as connection:
            yield PlatformSession(connection, _OPENED)

    @property
    def is_calm(self) -> bool:
        """Whether so few connections are in use that a caller may take a second one, to be done sooner."""
        return 4 * self._taken <= self._pool_size

    @asynccontextmanager
    async def _transaction(self, begin: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        try:
            async with asyncio.timeout(self._pool_timeout):
                await self._turns.acquire()
        except TimeoutError:
            raise DatabaseUnavailable from None
        self._taken += 1
        try:
            async with self._open_transaction(begin) as connection:
                yield connection
        finally:
            self._taken -= 1
            self._turns.release()

    @asynccontextmanager
    async def _open_transaction(self, begin: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        try:
            pooled = await self.engine.connect()
        except AWAY as error:
            raise DatabaseUnavailable from error
        except DBAPIError as error:
            log.exception("connecting to the database failed")
            raise DatabaseUnavailable from error
        try:
            driver = await _driver_connection(pooled)
            await driver.execute(
                f"begin;set local statement_timeout='{self._statement_timeout}';set local jit=off;{begin}"
            )
            yield driver
            await driver.execute("commit")
        except BaseException as error:
            await asyncio.shield(_abandon(pooled, reusable=isinstance(error, Exception)))
            # asyncpg's DataError, a ValueError, is a wrong argument and not an absent database.
            if isinstance(error, AWAY) and not isinstance(error, ValueError):
                log.error("database error: %s", type(error).__name__, exc_info=error)
                raise DatabaseUnavailable from error
            raise
        else:
            await pooled.close()

    async def close(self) -> None:
        """Close all connections, unless the engine was lent."""
        if not self._lent:
            await self.engine.dispose()


def _register_types(dbapi_connection: Any, _record: Any) -> None:
    dbapi_connection.run_async(_set_codecs)


async def _set_codecs(driver: asyncpg.Connection[asyncpg.Record]) -> None:
    """Vectors travel in binary; JSON is sent as text that the caller made, and read as plain values.

    Identifiers are the standard library's UUID: the driver's own subclass cannot be serialised by orjson.
    """
    await register_vector(driver)
    await driver.set_type_codec(
        "uuid",
        schema="pg_catalog",
        encoder=lambda value: value.bytes,
        decoder=lambda data: UUID(bytes=data),
        format="binary",
    )
    await driver.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        encoder=lambda text: b"\x01" + text.encode(),
        decoder=lambda data: orjson.loads(data[1:]),
        format="binary",
    )
    await driver.set_type_codec(
        "json", schema="pg_catalog", encoder=str.encode, decoder=orjson.loads, format="binary"
    )


async def _driver_connection(pooled: AsyncConnection) -> asyncpg.Connection[asyncpg.Record]:
    raw = await pooled.get_raw_connection()
    driver: Any = raw.driver_connection
    return driver  # type: ignore[no-any-return]  # SQLAlchemy does not know the driver's type


async def _abandon(pooled: AsyncConnection, *, reusable: bool) -> None:
    """Roll back and give the connection back, or throw it away when its state is not certain."""
    if reusable:
        try:
            driver = await _driver_connection(pooled)
            await asyncio.wait_for(driver.execute("rollback"), 5)
        except Exception:  # whatever it is, this connection is not used again
            reusable = False
    if not reusable:
        await pooled.invalidate()
    await pooled.close()
