"""The database as services use it: `tenant_session` and `platform_session` are the only entry points.

`Database.tenant_session(tenant_id)` opens a transaction with `app.current_tenant` set, so that the row-level
security policies show only the rows of that tenant.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
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
from app.db.citus.naming import write_for_node
from app.db.citus.nodes import Nodes
from app.db.citus.places import Place, is_cluster
from app.db.codecs import register_types
from app.db.connections import Connections, PoolUse
from app.db.engine import driver_address, make_engine, make_pool
from app.db.replicas.replicas import Replicas, current_replica
from app.db.session import OPENED, PlatformSession, TenantSession
from app.db.statements import parse_statement
from app.db.transactions import Transactions, set_tenant
from app.db.warmth import NO_TENANT, Rehearsal, Rehearse, Warmth
from app.errors import TenantNotFound

Result = TypeVar("Result")

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
        self._options: Final[dict[str, Any]] = {
            "pool_size": pool_size,
            "pool_timeout": pool_timeout,
            "connect_timeout": connect_timeout,
            "statement_timeout": statement_timeout,
            "prepared_statements": prepared_statements,
            "crowd": crowd,
            "part": part,
        }
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
        self.engine = engine or make_pool(
            dsn, pool_size, pool_timeout, connect_timeout, prepared_statements=prepared_statements
        )
        event.listen(self.engine.sync_engine, "connect", register_types)
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
        self._rehearsal = Rehearsal(self._outage, self._patience)
        event.listen(self.engine.sync_engine, "connect", self._warmth.note, insert=True)
        event.listen(self.engine.sync_engine, "connect", self._rehearsal.prepare)
        self.replicas: Replicas | None = None
        self.nodes: Nodes[Database] | None = None
        self._write: Callable[[str], str] | None = None
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
        if self.nodes is None:
            async with self.open_at(None, tenant_id, setup, background) as session:
                yield session
            return
        async with self.nodes.open(
            tenant_id, lambda place: place.node.open_at(place, tenant_id, setup, background)
        ) as session:
            yield session

    @asynccontextmanager
    async def open_at(
        self, place: Place[Database] | None, tenant_id: UUID, setup: str, background: timedelta | None
    ) -> AsyncIterator[TenantSession]:
        """As `tenant_session`, at a place on this node of a cluster, or None.

        Raises asyncpg.PostgresError with a code of `shards.enter` if the tenant is no longer there.
        """
        begin = f"{set_tenant(tenant_id)}{setup}"
        write = None
        if place is not None:
            begin, write = f"{place.entrance}{begin}", place.write
        # The tenant's callers must not wait for its background work.
        turn = tenant_id if background is None else PLATFORM
        patience = self._patience if background is None else None
        try:
            async with self._transactions.open(begin, turn, background) as driver:
                yield TenantSession(driver, OPENED, self._outage, patience, tenant_id, write)
        except asyncpg.ForeignKeyViolationError as error:
            # Every table and partition has its own foreign key to tenants; a list of their names would become outdated.
            async with self._transactions.open(begin, turn, background) as driver:
                session = TenantSession(driver, OPENED, self._outage, patience, tenant_id, write)
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
        if self._write is not None:
            begin += (
                ";set local citus.override_table_visibility=off"  # a cluster hides shards and their indexes
            )
        patience = self._patience if background is None else None
        async with self._transactions.open(begin, PLATFORM, background) as driver:
            yield PlatformSession(driver, OPENED, self._outage, patience, self._write)

    @asynccontextmanager
    async def shared_session(self, tenant_id: UUID) -> AsyncIterator[TenantSession]:
        """A tenant's transaction on what all tenants share, e.g. the turns at a host: no rows of the tenant itself.

        In a cluster it runs on the coordinator. Raises DatabaseUnavailable.
        """
        async with self.open_at(None, tenant_id, "", None) as session:
            yield session

    async def join_cluster(self) -> None:
        """If the database is a Citus cluster's, let each tenant's sessions run on the node that holds the tenant.

        Raises DatabaseUnavailable.
        """
        if self.nodes is None and await is_cluster(self):
            self.nodes = Nodes(self, self._like)
            self._write = write_for_node

    def _like(self, address: str) -> Database:
        """A database with these settings at the address of another node."""
        node = Database(address, **self._options)
        node._write = write_for_node
        return node

    async def holders(self) -> Sequence[Database]:
        """The databases that hold tenants: this one, or those of a cluster's nodes. Raises DatabaseUnavailable."""
        return (self,) if self.nodes is None else await self.nodes.holders()

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
            begin = f"{set_tenant(NO_TENANT)}{setup}"
            await stack.enter_async_context(self._rehearsal.held(rehearse, begin))
            for replica in self.replicas.replicas if self.replicas is not None else ():
                await stack.enter_async_context(replica.database.keep_warm(rehearse, setup=setup))
            await stack.enter_async_context(self._warmth.keep())
            yield

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
        if self.nodes is not None:
            await self.nodes.close()
        await self._outage.close()
        if not self.is_lent:
            await self.engine.dispose()
            self._warmth.end_all()
