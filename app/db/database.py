"""The database as services use it: `tenant_session` and `platform_session` are the only entry points.

`Database.tenant_session(tenant_id)` opens a transaction with `app.current_tenant` set, so that the row-level
security policies show only the rows of that tenant.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

import asyncpg
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from app.concurrency.processes.part import Part
from app.concurrency.turns import PLATFORM, Turns
from app.db.codecs import register_types
from app.db.connections import Connections, PoolUse
from app.db.engine import driver_address, make_engine
from app.db.replicas.replicas import Replicas, current_replica
from app.db.session import OPENED, PlatformSession, TenantSession
from app.db.statements import parse_statement
from app.db.transactions import Transactions
from app.db.warmth import RECYCLE_SECONDS, Warmth
from app.errors import DatabaseUnavailable, TenantNotFound

Rehearse = Callable[[TenantSession], Awaitable[None]]
Result = TypeVar("Result")

NO_TENANT = UUID(int=0)
"""A tenant that does not exist."""

TENANT_EXISTS = parse_statement(
    "database.tenant_exists", "select exists (select from tenants where id = :tenant_id)"
)

LEAST_SHARE = 3
"""Concurrent connections that a tenant may have regardless of the number of active tenants: a long write leaves room
for the tenant's searches."""


class Database:
    """A connection pool for a role that is subject to row-level security; `is_lent` if the engine has other users."""

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
        part: Part | None = None,
    ) -> None:
        """Times are in seconds; `connect_timeout` is for connecting and beginning a transaction.

        With `engine`, a host application can lend its own engine.

        While several tenants are active, they share `crowd` connections: the number of transactions that run
        concurrently without slowing each other down. None: the whole pool. With `part`, the connections in use in the
        other processes of the service count too.
        """
        self.is_lent: Final = engine is not None
        # First come, first served, with turns between tenants. The pool alone lets a caller that returns a connection
        # take it again before a waiting caller, so that with many callers some would wait for seconds.
        self._turns = Turns(
            pool_size,
            crowd=crowd,
            least=LEAST_SHARE,
            common=None if part is None else part.amounts("connections"),
        )
        self._pool_size = pool_size
        # The server's own time limit applies first, unless the server has stopped responding.
        self._patience = statement_timeout + connect_timeout
        self.dsn: Final = driver_address(dsn)
        self.engine = engine or make_engine(
            dsn,
            pool_size=pool_size,
            max_overflow=0,
            # The most recently used connection has its plans ready and its caches warm.
            pool_use_lifo=True,
            pool_timeout=pool_timeout,
            pool_recycle=RECYCLE_SECONDS,
            hide_parameters=True,
            connect_args={
                "timeout": connect_timeout,
                "statement_cache_size": 512 if prepared_statements else 0,
                "prepared_statement_cache_size": 0,
            },
        )
        event.listen(self.engine.sync_engine, "connect", register_types)
        event.listen(self.engine.sync_engine, "connect", self._note, insert=True)
        event.listen(self.engine.sync_engine, "connect", self._prepare)
        connections = Connections(
            self.engine,
            self._turns,
            size=pool_size,
            timeout=connect_timeout,
            lent=self.is_lent,
            make_apart=self.make_engine_apart,
        )
        self._outage = connections.outage
        self._transactions = Transactions(
            connections,
            self._turns,
            pool_timeout=pool_timeout,
            statement_timeout=statement_timeout,
            patience=self._patience,
        )
        self._warmth = Warmth(self.engine, self._turns, self._outage, pool_size)
        self._keeps_plans = prepared_statements and not self.is_lent
        self._rehearse: Rehearse | None = None
        self._rehearsal_setup = ""
        self.replicas: Replicas | None = None
        self.tell_of_deleted: list[Callable[[UUID], None]] = []
        """Functions to call when a session finds that its tenant was deleted; for caches of tenants."""

    async def reading(self, tenant_id: UUID, read: Callable[[], Awaitable[Result]]) -> Result:
        """Run work whose sessions of `read_session` all read from one replica, if one may serve the tenant.

        If the replica fails, the work runs again, and reads from the primary.
        """
        return await (read() if self.replicas is None else self.replicas.reading(tenant_id, read))

    @asynccontextmanager
    async def read_session(self, tenant_id: UUID, *, setup: str = "") -> AsyncIterator[TenantSession]:
        """As `tenant_session`, for reads alone: on the replica of `reading`, or else on the primary."""
        replica = current_replica()
        database = self if replica is None else replica.database
        async with database.tenant_session(tenant_id, setup=setup, aside=True) as session:
            yield session

    @asynccontextmanager
    async def tenant_session(
        self, tenant_id: UUID, *, setup: str = "", background: timedelta | None = None, aside: bool = False
    ) -> AsyncIterator[TenantSession]:
        """A transaction in which only the rows of `tenant_id` exist; commits on leaving, rolls back on error.

        `setup` is SQL text from this package that runs in the same round trip (planner settings of a leg).
        `background` marks background work, and is its time limit for each statement instead of the usual one. With
        `aside`, what it writes is nothing that searches read, so that a replica need not have it.
        Raises DatabaseUnavailable when the database is down or a time limit is exceeded, and TenantNotFound for a
        write to a tenant that another process has deleted.
        """
        notes = self.replicas if not aside else None
        if notes is None:
            async with self._open_tenant(tenant_id, setup, background) as session:
                yield session
            return
        wrote = False
        try:
            async with self._open_tenant(tenant_id, setup, background) as session:
                yield session
                wrote = session.has_written
        finally:
            if wrote:  # also if the answer to the commit was lost
                notes.note_write(tenant_id)

    @asynccontextmanager
    async def _open_tenant(
        self, tenant_id: UUID, setup: str, background: timedelta | None
    ) -> AsyncIterator[TenantSession]:
        begin = f"{_set_tenant(tenant_id)}{setup}"
        # The tenant's callers must not wait for its background work.
        turn = tenant_id if background is None else PLATFORM
        patience = self._patience if background is None else None
        try:
            async with self._transactions.open(begin, turn, background) as driver:
                yield TenantSession(driver, OPENED, self._outage, patience, tenant_id)
        except asyncpg.ForeignKeyViolationError as error:
            # Every table and partition has its own foreign key to tenants; a list of their names would become outdated.
            async with self._transactions.open(begin, turn, background) as driver:
                session = TenantSession(driver, OPENED, self._outage, patience, tenant_id)
                remains = await session.fetch_value(TENANT_EXISTS)
            if remains:
                raise
            for tell in self.tell_of_deleted:
                tell(tenant_id)
            raise TenantNotFound("the tenant does not exist") from error

    @asynccontextmanager
    async def platform_session(
        self, *, background: timedelta | None = None
    ) -> AsyncIterator[PlatformSession]:
        """A transaction in which no tenant is set; `background` is as in `tenant_session`."""
        begin = "select set_config('app.current_tenant', '', true)"
        patience = self._patience if background is None else None
        async with self._transactions.open(begin, PLATFORM, background) as driver:
            yield PlatformSession(driver, OPENED, self._outage, patience)

    @asynccontextmanager
    async def keep_warm(self, rehearse: Rehearse, *, setup: str = "") -> AsyncIterator[None]:
        """Keep all connections of the pool open while the block runs, each one ready for callers.

        `rehearse` runs once on each new connection, in a session of no tenant after `setup`, so that it has the plans
        of its statements. Connections that are lent, or that a pooler may exchange, are left as they are.
        """
        if not self._keeps_plans:
            yield
            return
        self._rehearse, self._rehearsal_setup = rehearse, setup
        try:
            async with contextlib.AsyncExitStack() as stack:
                for replica in self.replicas.replicas if self.replicas is not None else ():
                    await stack.enter_async_context(replica.database.keep_warm(rehearse, setup=setup))
                await stack.enter_async_context(self._warmth.keep())
                yield
        finally:
            self._rehearse = None

    def _note(self, dbapi_connection: Any, _record: Any) -> None:
        """Note a new connection before anything else runs on it; a listener for SQLAlchemy's event `connect`."""
        self._warmth.note(dbapi_connection.driver_connection)

    def _prepare(self, dbapi_connection: Any, _record: Any) -> None:
        """Prepare a new connection; a listener for SQLAlchemy's event `connect`."""
        if self._rehearse is not None:
            dbapi_connection.run_async(self._run_rehearsal)

    async def _run_rehearsal(self, driver: asyncpg.Connection[asyncpg.Record]) -> None:
        try:
            await driver.execute(f"begin;{_set_tenant(NO_TENANT)}{self._rehearsal_setup}")
            with contextlib.suppress(
                DatabaseUnavailable, asyncpg.PostgresError
            ):  # then it is ready, but not fast
                assert self._rehearse is not None
                await self._rehearse(TenantSession(driver, OPENED, self._outage, self._patience, NO_TENANT))
            await driver.execute("rollback")
        except BaseException:
            driver.terminate()  # the pool closes only connections that it has accepted
            raise

    @property
    def is_calm(self) -> bool:
        """Whether so few connections are in use, where the running work reads, that it may take a second one."""
        replica = current_replica()
        return self.has_spare if replica is None else replica.database.has_spare

    @property
    def has_spare(self) -> bool:
        """Whether so few connections of this pool are in use that a caller may take two to finish sooner."""
        return self._turns.is_calm and 4 * self._turns.taken <= self._pool_size

    @property
    def pool_use(self) -> PoolUse:
        """The current use of the pool."""
        return PoolUse(self._pool_size, self._turns.taken, self._turns.waited_for)

    async def answers(self, patience: float) -> bool:
        """Whether the database answers within `patience` seconds, even if the pool is busy."""
        return await self._outage.answers(patience)

    def make_engine_apart(self) -> AsyncEngine:
        """An engine for the same database whose connections are not in the pool; the caller disposes of it."""
        if self.is_lent:
            return create_async_engine(self.engine.url, poolclass=NullPool)
        return make_engine(self.dsn, poolclass=NullPool)

    async def close(self) -> None:
        """Close all connections, unless the engine was lent."""
        await self._outage.close()
        if not self.is_lent:
            await self.engine.dispose()
            self._warmth.end_all()


def _set_tenant(tenant_id: UUID) -> str:
    # The type makes the literal safe: only the text of a UUID reaches the statement.
    return f"select set_config('app.current_tenant', '{UUID(int=tenant_id.int)}', true);"
