"""Transactions: the one place where a connection is told whose rows it may see.

`Database.tenant_session(tenant_id)` opens a transaction in which `app.current_tenant` is set, so that the
policies of Postgres show that tenant's rows and no others. Query functions take a `TenantSession`, which
nothing else can make: a query without a tenant is a type error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from app.concurrency.turns import PLATFORM, Turns
from app.db.codecs import register_types
from app.db.connections import Connections
from app.db.engine import make_engine
from app.db.outage import AWAY, BUSY, Outage
from app.db.statements import Statement, load_statements
from app.errors import DatabaseUnavailable, TenantNotFound

SQL = load_statements("app.db.queries.tenants.tenants")

Row = asyncpg.Record
Result = TypeVar("Result")


class _Session:
    """Runs statements on one connection, inside the transaction that its maker opened."""

    def __init__(
        self,
        connection: asyncpg.Connection[asyncpg.Record],
        opened_by: object,
        outage: Outage,
        patience: float | None,
    ) -> None:
        if opened_by is not _OPENED:
            raise TypeError("sessions are made by Database, which opens their transaction")
        self._connection = connection
        self._outage = outage
        self._patience = patience

    async def fetch(self, statement: Statement, **parameters: Any) -> Sequence[Row]:
        """All rows. Raises asyncpg.PostgresError."""
        return await self._run(self._connection.fetch, statement, parameters)

    async def fetch_row(self, statement: Statement, **parameters: Any) -> Row | None:
        """The first row, or None."""
        return await self._run(self._connection.fetchrow, statement, parameters)

    async def fetch_value(self, statement: Statement, **parameters: Any) -> Any:
        """The first column of the first row, or None."""
        return await self._run(self._connection.fetchval, statement, parameters)

    async def execute(self, statement: Statement, **parameters: Any) -> int:
        """Run a statement without a result; returns the number of rows it touched."""
        status = await self._run(self._connection.execute, statement, parameters)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def stream(
        self, statement: Statement, batch: int, **parameters: Any
    ) -> AsyncIterator[Sequence[Row]]:
        """Rows through a cursor, `batch` at a time, for results that may be left early or do not fit memory."""
        cursor = await self._run(partial(self._connection.cursor, prefetch=None), statement, parameters)
        while rows := await self._outage.listen(cursor.fetch(batch, timeout=self._patience)):
            yield rows

    async def _run(
        self, call: Callable[..., Awaitable[Result]], statement: Statement, parameters: Mapping[str, Any]
    ) -> Result:
        values = [parameters[name] for name in statement.parameters]
        return await self._outage.listen(call(statement.sql, *values, timeout=self._patience))


class TenantSession(_Session):
    """One transaction in which only one tenant's rows exist."""

    def __init__(
        self,
        connection: asyncpg.Connection[asyncpg.Record],
        opened_by: object,
        outage: Outage,
        patience: float | None,
        tenant_id: UUID,
    ) -> None:
        super().__init__(connection, opened_by, outage, patience)
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
        self._statement_timeout = f"{int(statement_timeout * 1000)}ms"
        # The server's own time limit comes first, unless nothing is heard of the server any more.
        self._patience = statement_timeout + connect_timeout
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
        self._connections = Connections(
            self.engine,
            self._turns,
            size=pool_size,
            timeout=connect_timeout,
            lent=self._lent,
            make_apart=self.make_engine_apart,
        )
        self._outage = self._connections.outage
        self.tell_of_deleted: list[Callable[[UUID], None]] = []
        """Whoever remembers tenants, and is told when a session finds its own deleted."""

    @asynccontextmanager
    async def tenant_session(self, tenant_id: UUID, *, setup: str = "") -> AsyncIterator[TenantSession]:
        """A transaction in which only the rows of `tenant_id` exist; commits on leaving, rolls back on error.

        `setup` is SQL text of this package run in the same round trip (planner settings of a leg).
        Raises DatabaseUnavailable when the database is away or a time limit is hit, and TenantNotFound when something
        was to be written for a tenant that another process has deleted meanwhile.
        """
        # The type is what makes the literal safe: only a UUID's own text reaches the statement.
        begin = f"select set_config('app.current_tenant', '{UUID(int=tenant_id.int)}', true);{setup}"
        # No caller of the tenant shall wait for its background work.
        turn = PLATFORM if _has_own_limit(setup) else tenant_id
        patience = self._patience_for(setup)
        try:
            async with self._transaction(begin, turn) as connection:
                yield TenantSession(connection, _OPENED, self._outage, patience, tenant_id)
        except asyncpg.ForeignKeyViolationError as error:
            # Each table and partition has a key of its own for its tenant: no list of names would hold for long.
            async with self._transaction(begin, turn) as connection:
                session = TenantSession(connection, _OPENED, self._outage, patience, tenant_id)
                remains = await session.fetch_value(SQL["exists"], tenant_id=tenant_id)
            if remains:
                raise
            for tell in self.tell_of_deleted:
                tell(tenant_id)
            raise TenantNotFound("the tenant does not exist") from error

    @asynccontextmanager
    async def platform_session(self, *, setup: str = "") -> AsyncIterator[PlatformSession]:
        """A transaction in which no tenant is set."""
        begin = f"select set_config('app.current_tenant', '', true);{setup}"
        async with self._transaction(begin, PLATFORM) as connection:
            yield PlatformSession(connection, _OPENED, self._outage, self._patience_for(setup))

    @property
    def is_calm(self) -> bool:
        """Whether so few connections are in use that a caller may take a second one, to be done sooner."""
        return self._turns.is_calm and 4 * self._turns.taken <= self._pool_size

    @property
    def pool_use(self) -> PoolUse:
        """How much of the pool is in use at this moment."""
        return PoolUse(self._pool_size, self._turns.taken, self._turns.waited_for)

    async def answers(self, patience: float) -> bool:
        """Whether the database answers within `patience` seconds, however busy the pool is."""
        return await self._outage.answers(patience)

    @asynccontextmanager
    async def _transaction(
        self, begin: str, tenant: Hashable
    ) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        await self._outage.settle()
        await self._take_turn(tenant)
        try:
            async with self._open_transaction(begin) as connection:
                yield connection
        finally:
            self._turns.release(tenant)

    async def _take_turn(self, tenant: Hashable) -> None:
        """Raises DatabaseUnavailable when it takes too long, because all turns are taken or all of them hang."""
        came = time.monotonic()
        # Early enough that an answer is there when the time is up.
        asking = asyncio.get_running_loop().call_later(
            self._pool_timeout / 4, self._outage.ask_if_silent, came
        )
        try:
            async with asyncio.timeout(self._pool_timeout):
                await self._turns.acquire(tenant)
        except TimeoutError as error:
            if self._outage.is_silent(came):
                raise self._outage.refuse(error) from error
            raise DatabaseUnavailable(BUSY) from None
        finally:
            asking.cancel()

    @asynccontextmanager
    async def _open_transaction(self, begin: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        pooled, driver = await self._connections.begin(
            f"begin;set local statement_timeout='{self._statement_timeout}';set local jit=off;{begin}"
        )
        self._connections.in_use.add(driver)
        try:
            yield driver
            await self._outage.listen(driver.execute("commit", timeout=self._patience))
        except BaseException as error:
            if isinstance(error, DatabaseUnavailable) and isinstance(error.__cause__, OSError):
                self._connections.end(driver)  # a server that is silent would be waited for once more
            await self._connections.abandon(pooled, driver, reusable=isinstance(error, Exception))
            # asyncpg's DataError, a ValueError, is a wrong argument and not an absent database. An OSError is not of
            # this connection: `listen` has those.
            if isinstance(error, AWAY) and not isinstance(error, ValueError | OSError):
                raise self._outage.refuse(error) from error
            raise
        else:
            await pooled.close()
        finally:
            self._connections.in_use.discard(driver)

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
        await self._outage.close()
        if not self._lent:
            await self.engine.dispose()


def _has_own_limit(setup: str) -> bool:
    """Whether a session sets a time limit of its own, as work in the background does."""
    return "statement_timeout" in setup
