"""One server: a pool of connections, and the transactions on them. Tenants take turns."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, TypedDict, Unpack
from uuid import UUID

import asyncpg
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool, PoolProxiedConnection

from app.concurrency.part import Part
from app.concurrency.turns import PLATFORM, Turns
from app.db.connections import NO_TENANT, Connections, PoolUse, Rehearsal, Rehearse, Warmth
from app.db.engine import driver_address, make_engine, make_pool, register_types
from app.db.outage import BUSY, is_outage
from app.db.principals import Rights, current_rights, set_actor
from app.db.rows import Connection
from app.db.session import OPENED, PlatformSession, TenantSession
from app.db.statements import parse_statement
from app.errors import DatabaseUnavailable, TenantNotFound


def set_tenant(tenant_id: UUID) -> str:
    """The SQL text that sets the tenant of a transaction."""
    # The type makes the literal safe: only the text of a UUID reaches the statement.
    return f"select set_config('app.current_tenant', '{UUID(int=tenant_id.int)}', true);"


TENANT_EXISTS = parse_statement("database.tenant_exists", "select exists (select from tenants where id = :tenant_id)")

LEAST_SHARE = 3
"""Concurrent connections that a tenant may have regardless of the number of active tenants: a long write leaves room
for the tenant's searches."""


class Options(TypedDict, total=False):
    """The options of a server. Times are in seconds.

    Attributes:
        pool_size: connections; 10 by default.
        pool_timeout: for waiting for a connection; 5 by default.
        connect_timeout: for connecting and beginning a transaction; 5 by default.
        statement_timeout: for a statement; 30 by default.
        prepared_statements: whether connections keep the plans of statements; by default they do.
        crowd: while several tenants are active, they share this number of connections: the number of transactions that
            run concurrently without slowing each other down. None, the default: the whole pool.
        engine: a host application's own engine, which it lends.
        part: with it, the connections in use in the other processes of the service count too.
    """

    pool_size: int
    pool_timeout: float
    connect_timeout: float
    statement_timeout: float
    prepared_statements: bool
    crowd: int | None
    engine: AsyncEngine | None
    part: Part | None


class Server:
    """A connection pool for a role that is subject to row-level security; `is_lent` if the engine has other users."""

    def __init__(self, dsn: str, **options: Unpack[Options]) -> None:
        """Open no connection yet."""
        self._pool_size = options.get("pool_size", 10)
        self._pool_timeout = options.get("pool_timeout", 5.0)
        self._statement_timeout = options.get("statement_timeout", 30.0)
        connect_timeout = options.get("connect_timeout", 5.0)
        prepared_statements = options.get("prepared_statements", True)
        engine, part = options.get("engine"), options.get("part")
        self.is_lent: Final = engine is not None
        # First come, first served, with turns between tenants. The pool alone lets a caller that returns a connection
        # take it again before a waiting caller, so that with many callers some would wait for seconds.
        self._turns = Turns(
            self._pool_size,
            crowd=options.get("crowd"),
            least=LEAST_SHARE,
            common=None if part is None else part.amounts("connections"),
        )
        # The server's own time limit applies first, unless the server has stopped responding.
        self._patience = self._statement_timeout + connect_timeout
        self.dsn: Final = driver_address(dsn)
        self.engine = engine or make_pool(
            dsn, self._pool_size, self._pool_timeout, connect_timeout, prepared_statements=prepared_statements
        )
        event.listen(self.engine.sync_engine, "connect", register_types)
        self._connections = Connections(
            self.engine,
            self._turns,
            size=self._pool_size,
            timeout=connect_timeout,
            lent=self.is_lent,
            make_apart=self.make_engine_apart,
        )
        self._outage = self._connections.outage
        self._warmth = Warmth(self.engine, self._turns, self._outage, self._pool_size)
        self._keeps_plans = prepared_statements and not self.is_lent
        self._rehearsal = Rehearsal(self._outage, self._patience)
        event.listen(self.engine.sync_engine, "connect", self._warmth.note, insert=True)
        event.listen(self.engine.sync_engine, "connect", self._rehearsal.prepare)
        self.write: Callable[[str], str] | None = None
        """Writes the text of a statement that concerns all tenants of this server; None: as it is."""
        self.entrance = ""
        """SQL text that begins a transaction in which no tenant is set."""
        self.tell_of_deleted: list[Callable[[UUID], None]] = []
        """Functions to call when a session finds that its tenant was deleted; for caches of tenants."""

    @asynccontextmanager
    async def open_tenant(
        self,
        tenant_id: UUID,
        setup: str = "",
        background: timedelta | None = None,
        *,
        entrance: str = "",
        write: Callable[[str], str] | None = None,
    ) -> AsyncIterator[TenantSession]:
        """A transaction of a tenant on this server.

        In a cluster, `entrance` is SQL text that comes first, and `write` writes each statement. Raises
        asyncpg.PostgresError if the entrance fails, DatabaseUnavailable, and TenantNotFound.
        """
        begin = f"{entrance}{set_tenant(tenant_id)}{set_actor()}{setup}"
        # The tenant's callers must not wait for its background work.
        turn = tenant_id if background is None else PLATFORM
        patience = self._patience if background is None else None
        rights = current_rights()
        try:
            async with self._open(begin, turn, background, rights) as driver:
                yield TenantSession(driver, OPENED, self._outage, patience, tenant_id, write)
        except asyncpg.ForeignKeyViolationError as error:
            # Every table and partition has its own foreign key to tenants; a list of their names would become outdated.
            remains = True
            with contextlib.suppress(asyncpg.PostgresError):  # a cluster has just moved the tenant: it exists
                async with self._open(begin, turn, background, rights) as driver:
                    session = TenantSession(driver, OPENED, self._outage, patience, tenant_id, write)
                    remains = await session.fetch_value(TENANT_EXISTS)
            if remains:
                raise
            for tell in self.tell_of_deleted:
                tell(tenant_id)
            raise TenantNotFound("the tenant does not exist") from error

    @asynccontextmanager
    async def platform_session(self, *, background: timedelta | None = None) -> AsyncIterator[PlatformSession]:
        """A transaction in which no tenant is set; `background` is as in `tenant_session`."""
        begin = f"{self.entrance}select set_config('app.current_tenant', '', true)"
        patience = self._patience if background is None else None
        async with self._open(begin, PLATFORM, background) as driver:
            yield PlatformSession(driver, OPENED, self._outage, patience, self.write)

    @asynccontextmanager
    async def keep_warm(self, rehearse: Rehearse, *, setup: str = "") -> AsyncIterator[None]:
        """Keep all connections of the pool open while the block runs, each one ready for callers.

        `rehearse` runs once on each new connection, in a session of no tenant after `setup`, so that it has the plans
        of its statements. Connections that are lent, or that a pooler may exchange, are left as they are.
        """
        if not self._keeps_plans:
            yield
            return
        async with contextlib.AsyncExitStack() as stack:
            # Plans belong to a role: another role would have to plan again.
            begin = f"{set_tenant(NO_TENANT)}{setup}"
            await stack.enter_async_context(self._rehearsal.held(rehearse, begin, Rights.READ))
            await stack.enter_async_context(self._warmth.keep())
            yield

    @asynccontextmanager
    async def _open(
        self, begin: str, turn: Hashable, time_limit: timedelta | None, rights: Rights = Rights.ALL
    ) -> AsyncIterator[Connection]:
        """A transaction that begins with the SQL text `begin`; commits on leaving, rolls back on error.

        `rights` are those that `begin` sets: the connection should have plans for them. `turn` identifies who takes the
        turn. `time_limit` applies to each statement; None: the usual limit.
        Raises DatabaseUnavailable.
        """
        await self._outage.wait_until_reachable()
        if not self._turns.take(turn):
            await self._wait_for_turn(turn)
        try:
            seconds = self._statement_timeout if time_limit is None else time_limit.total_seconds()
            pooled, driver = await self._connections.begin(
                f"begin;set local statement_timeout='{int(seconds * 1000)}ms';set local jit=off;{begin}", rights.value
            )
            self._connections.in_use.add(driver)
            try:
                yield driver
                await self._outage.await_answer(driver.execute("commit", timeout=self._patience))
            except BaseException as error:
                await self._abandon(pooled, driver, error)
                raise
            finally:
                self._connections.in_use.discard(driver)
            pooled.close()
        finally:
            self._turns.release(turn)

    async def _wait_for_turn(self, turn: Hashable) -> None:
        """Raises DatabaseUnavailable after the time limit, when all turns are in use or hang."""
        came = time.monotonic()
        # Early enough to have an answer before the time limit.
        asking = asyncio.get_running_loop().call_later(self._pool_timeout / 4, self._outage.ask_if_silent, came)
        try:
            async with asyncio.timeout(self._pool_timeout):
                await self._turns.acquire(turn)
        except TimeoutError as error:
            if self._outage.is_silent(came):
                raise self._outage.refuse(error) from error
            raise DatabaseUnavailable(BUSY) from None
        finally:
            asking.cancel()

    async def _abandon(self, pooled: PoolProxiedConnection, driver: Connection, error: BaseException) -> None:
        """End a transaction that failed. Raises DatabaseUnavailable if the database was the reason."""
        if isinstance(error, DatabaseUnavailable) and isinstance(error.__cause__, OSError):
            self._connections.end(driver)  # otherwise the rollback would wait for the silent server again
        await self._connections.abandon(pooled, driver, reusable=isinstance(error, Exception))
        # asyncpg's DataError, a ValueError, means a wrong argument, not a missing database. An OSError does not
        # come from this connection: `await_answer` converts those.
        if is_outage(error):
            raise self._outage.refuse(error) from error

    def has_answered_since(self, moment: float) -> bool:
        """Whether a query was answered after this time of the monotonic clock."""
        return self._outage.has_answered_since(moment)

    @property
    def has_spare(self) -> bool:
        """Whether so few connections of this pool are in use that a caller may take two to finish sooner."""
        return self._turns.is_uncontended and 4 * self._turns.taken <= self._pool_size

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
