"""Transactions: the one place where a connection is told whose rows it may see.

`Database.tenant_session(tenant_id)` opens a transaction in which `app.current_tenant` is set, so that the
policies of Postgres show that tenant's rows and no others. Query functions take a `TenantSession`, which
nothing else can make: a query without a tenant is a type error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from app.db.codecs import register_types
from app.db.migration import make_engine
from app.db.outage import AWAY, BUSY, PATIENCE, Outage
from app.db.statements import Statement
from app.errors import DatabaseUnavailable
from app.turns import PLATFORM, Turns

Row = asyncpg.Record


class _Session:
    """Runs statements on one connection, inside the transaction that its maker opened."""

    def __init__(
        self,
        connection: asyncpg.Connection[asyncpg.Record],
        opened_by: object,
        patience: float | None = None,
    ) -> None:
        if opened_by is not _OPENED:
            raise TypeError("sessions are made by Database, which opens their transaction")
        self._connection = connection
        self._patience = patience

    async def fetch(self, statement: Statement, **parameters: Any) -> Sequence[Row]:
        """All rows. Raises asyncpg.PostgresError."""
        return await self._connection.fetch(
            statement.sql, *[parameters[n] for n in statement.parameters], timeout=self._patience
        )

    async def fetch_row(self, statement: Statement, **parameters: Any) -> Row | None:
        """The first row, or None."""
        return await self._connection.fetchrow(
            statement.sql, *[parameters[n] for n in statement.parameters], timeout=self._patience
        )

    async def fetch_value(self, statement: Statement, **parameters: Any) -> Any:
        """The first column of the first row, or None."""
        return await self._connection.fetchval(
            statement.sql, *[parameters[n] for n in statement.parameters], timeout=self._patience
        )

    async def execute(self, statement: Statement, **parameters: Any) -> int:
        """Run a statement without a result; returns the number of rows it touched."""
        status = await self._connection.execute(
            statement.sql, *[parameters[n] for n in statement.parameters], timeout=self._patience
        )
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def stream(
        self, statement: Statement, batch: int, **parameters: Any
    ) -> AsyncIterator[Sequence[Row]]:
        """Rows through a cursor, `batch` at a time, for results that may be left early or do not fit memory."""
        cursor = await self._connection.cursor(
            statement.sql,
            *[parameters[n] for n in statement.parameters],
            prefetch=None,
            timeout=self._patience,
        )
        while rows := await cursor.fetch(batch, timeout=self._patience):
            yield rows


class TenantSession(_Session):
    """One transaction in which only one tenant's rows exist."""

    def __init__(
        self,
        connection: asyncpg.Connection[asyncpg.Record],
        opened_by: object,
        tenant_id: UUID,
        patience: float | None = None,
    ) -> None:
        super().__init__(connection, opened_by, patience)
        self.tenant_id = tenant_id


class PlatformSession(_Session):
    """One transaction without a tenant: tables are empty, and only the functions that cross tenants work."""


_OPENED = object()

LEAST_SHARE = 3
"""Connections that a tenant may have at the same time, however many tenants are active: a long write of its own leaves
room for its searches."""


@dataclass(frozen=True, slots=True)
class PoolUse:
    """Connections of the pool: how many it has, how many are in use, and how many callers wait for one."""

    size: int
    in_use: int
    waiting: int


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
        crowd: int | None = None,
        engine: AsyncEngine | None = None,
    ) -> None:
        """Times are in seconds; `connect_timeout` is for making a connection and beginning a transaction on it.

        `engine` lets a host application lend its own engine.

        While several tenants are active they share `crowd` connections: as many transactions as run side by side
        without slowing each other down; None: the whole pool.
        """
        self._lent = engine is not None
        # First come, first served, by turns between tenants: the pool itself lets a caller that returns a connection
        # take it again before one that waits, and with many callers some would wait for seconds.
        self._turns = Turns(pool_size, crowd=crowd, least=LEAST_SHARE)
        self._pool_size = pool_size
        self._pool_timeout = pool_timeout
        self._connect_timeout = connect_timeout
        self._statement_timeout = f"{int(statement_timeout * 1000)}ms"
        # The server's own time limit comes first, unless nothing is heard of the server any more.
        self._patience = statement_timeout + connect_timeout
        self._outage = Outage()
        self._dsn = dsn
        self.engine = engine or make_engine(
            dsn,
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
        event.listen(self.engine.sync_engine, "connect", register_types)

    @asynccontextmanager
    async def tenant_session(self, tenant_id: UUID, *, setup: str = "") -> AsyncIterator[TenantSession]:
        """A transaction in which only the rows of `tenant_id` exist; commits on leaving, rolls back on error.

        `setup` is SQL text of this package run in the same round trip (planner settings of a leg).
        Raises DatabaseUnavailable when the database is away or a time limit is hit.
        """
        # The type is what makes the literal safe: only a UUID's own text reaches the statement.
        begin = f"select set_config('app.current_tenant', '{UUID(int=tenant_id.int)}', true);{setup}"
        # No caller of the tenant shall wait for its background work.
        turn = PLATFORM if _has_own_limit(setup) else tenant_id
        async with self._transaction(begin, turn) as connection:
            yield TenantSession(connection, _OPENED, tenant_id, self._patience_for(setup))

    @asynccontextmanager
    async def platform_session(self, *, setup: str = "") -> AsyncIterator[PlatformSession]:
        """A transaction in which no tenant is set."""
        begin = f"select set_config('app.current_tenant', '', true);{setup}"
        async with self._transaction(begin, PLATFORM) as connection:
            yield PlatformSession(connection, _OPENED, self._patience_for(setup))

    @property
    def is_calm(self) -> bool:
        """Whether so few connections are in use that a caller may take a second one, to be done sooner."""
        return self._turns.is_calm and 4 * self._turns.taken <= self._pool_size

    @property
    def pool_use(self) -> PoolUse:
        """How much of the pool is in use at this moment."""
        return PoolUse(self._pool_size, self._turns.taken, self._turns.waited_for)

    @asynccontextmanager
    async def _transaction(
        self, begin: str, tenant: Hashable
    ) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        try:
            async with asyncio.timeout(self._pool_timeout):
                await self._turns.acquire(tenant)
        except TimeoutError:
            raise DatabaseUnavailable(BUSY) from None
        try:
            async with self._open_transaction(begin) as connection:
                yield connection
        finally:
            self._turns.release(tenant)

    @asynccontextmanager
    async def _open_transaction(self, begin: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        pooled, driver = await self._begin(begin)
        try:
            yield driver
            await driver.execute("commit", timeout=self._patience)
        except BaseException as error:
            await asyncio.shield(_abandon(pooled, reusable=isinstance(error, Exception)))
            # asyncpg's DataError, a ValueError, is a wrong argument and not an absent database.
            if isinstance(error, AWAY) and not isinstance(error, ValueError):
                raise self._outage.refuse(error) from error
            raise
        else:
            await pooled.close()

    async def _begin(self, begin: str) -> tuple[AsyncConnection, asyncpg.Connection[asyncpg.Record]]:
        """Open a transaction. A pooled connection that died while it was idle costs the caller nothing.

        Raises DatabaseUnavailable, whatever keeps the connection from being made: callers cannot mend it.
        """
        statement = f"begin;set local statement_timeout='{self._statement_timeout}';set local jit=off;{begin}"
        return await self._outage.attempt(lambda: self._open(statement))

    async def _open(self, statement: str) -> tuple[AsyncConnection, asyncpg.Connection[asyncpg.Record]]:
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._outage.patience(self._connect_timeout)
        for left in range(self._pool_size, -1, -1):
            try:
                async with asyncio.timeout_at(deadline):
                    pooled = await self.engine.connect()
            except (*AWAY, asyncpg.PostgresError) as error:
                raise self._outage.refuse(error) from error
            driver = None
            try:
                async with asyncio.timeout_at(deadline):
                    driver = await _driver_connection(pooled)
                    await driver.execute(statement)
            except BaseException as error:
                died = driver is not None and driver.is_closed()
                if isinstance(error, TimeoutError) and driver is not None:
                    driver.terminate()  # a server that is silent would be waited for once more
                await asyncio.shield(_abandon(pooled, reusable=isinstance(error, Exception) and not died))
                if not isinstance(error, AWAY) or isinstance(error, ValueError):
                    raise
                if not died or not left:
                    raise self._outage.refuse(error) from error
                deadline = min(deadline, clock() + PATIENCE)
            else:
                return pooled, driver
        raise AssertionError("the last try returns or raises")

    def _patience_for(self, setup: str) -> float | None:
        """Seconds to wait for a server that says nothing; work with a time limit of its own has that alone."""
        return None if _has_own_limit(setup) else self._patience

    def make_engine_apart(self) -> AsyncEngine:
        """An engine for the same database whose connections are no part of the pool; the caller disposes of it."""
        if self._lent:
            return create_async_engine(self.engine.url, poolclass=NullPool)
        return make_engine(self._dsn, poolclass=NullPool)

    async def close(self) -> None:
        """Close all connections, unless the engine was lent."""
        if not self._lent:
            await self.engine.dispose()


def _has_own_limit(setup: str) -> bool:
    """Whether a session sets a time limit of its own, as work in the background does."""
    return "statement_timeout" in setup


async def _driver_connection(pooled: AsyncConnection) -> asyncpg.Connection[asyncpg.Record]:
    raw = await pooled.get_raw_connection()
    driver: Any = raw.driver_connection
    return driver  # type: ignore[no-any-return]  # SQLAlchemy does not know the driver's type


async def _abandon(pooled: AsyncConnection, *, reusable: bool) -> None:
    """Roll back and give the connection back, or throw it away when its state is not certain."""
    if reusable:
        try:
            driver = await _driver_connection(pooled)
            await asyncio.wait_for(driver.execute("rollback"), 2)
        except Exception:  # whatever it is, this connection is not used again
            reusable = False
    if not reusable:
        await pooled.invalidate()
    await pooled.close()
