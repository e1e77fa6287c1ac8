"""The database as services see it: `tenant_session` and `platform_session` are the only ways in.

`Database.tenant_session(tenant_id)` opens a transaction in which `app.current_tenant` is set, so that the
policies of Postgres show that tenant's rows and no others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import asyncpg
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from app.concurrency.turns import PLATFORM, Turns
from app.db.codecs import register_types
from app.db.connections import Connections
from app.db.engine import make_engine
from app.db.session import OPENED, PlatformSession, TenantSession
from app.db.statements import parse_statement
from app.db.transactions import Transactions
from app.errors import TenantNotFound

TENANT_EXISTS = parse_statement(
    "database.tenant_exists", "select exists (select from tenants where id = :tenant_id)"
)

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
        connections = Connections(
            self.engine,
            self._turns,
            size=pool_size,
            timeout=connect_timeout,
            lent=self._lent,
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
        self.tell_of_deleted: list[Callable[[UUID], None]] = []
        """Whoever remembers tenants, and is told when a session finds its own deleted."""

    @asynccontextmanager
    async def tenant_session(
        self, tenant_id: UUID, *, setup: str = "", background: timedelta | None = None
    ) -> AsyncIterator[TenantSession]:
        """A transaction in which only the rows of `tenant_id` exist; commits on leaving, rolls back on error.

        `setup` is SQL text of this package run in the same round trip (planner settings of a leg).
        `background` says that this is background work, with this time limit for a statement in place of the usual one.
        Raises DatabaseUnavailable when the database is down or a time limit is hit, and TenantNotFound when something
        was to be written for a tenant that another process has deleted meanwhile.
        """
        # The type is what makes the literal safe: only a UUID's own text reaches the statement.
        begin = f"select set_config('app.current_tenant', '{UUID(int=tenant_id.int)}', true);{setup}"
        # No caller of the tenant shall wait for its background work.
        turn = tenant_id if background is None else PLATFORM
        patience = self._patience if background is None else None
        try:
            async with self._transactions.open(begin, turn, background) as driver:
                yield TenantSession(driver, OPENED, self._outage, patience, tenant_id)
        except asyncpg.ForeignKeyViolationError as error:
            # Each table and partition has a key of its own for its tenant: no list of names would hold for long.
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
