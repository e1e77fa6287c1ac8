"""The database as services use it: `tenant_session` and `platform_session` are the only entry points.

`Database.tenant_session(tenant_id)` opens a transaction with `app.current_tenant` set, so that the row-level
security policies show only the rows of that tenant. It chooses the server: the only one, a read replica, or the node
of a cluster that holds the tenant.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import TypeVar, Unpack
from uuid import UUID

from app.db.cluster.sessions import Nodes, is_cluster, make_node
from app.db.connections import Rehearse
from app.db.replicas import Replicas, current_replica
from app.db.server import Options, Server
from app.db.session import TenantSession
from app.errors import ConfigurationError

Result = TypeVar("Result")


class Database(Server):
    """The service's database: the primary server or the coordinator of a cluster, and the servers that belong to it."""

    def __init__(self, dsn: str, **options: Unpack[Options]) -> None:
        """Open no connection yet."""
        super().__init__(dsn, **options)
        self._options = options
        self.replicas: Replicas | None = None
        self.nodes: Nodes | None = None

    async def reading(self, tenant_id: UUID, read: Callable[[], Awaitable[Result]]) -> Result:
        """Run work whose sessions of `read_session` all read from one replica, if one may serve the tenant.

        If the replica fails, the work runs again, and reads from the primary.
        """
        return await (read() if self.replicas is None else self.replicas.reading(tenant_id, read))

    @asynccontextmanager
    async def read_session(self, tenant_id: UUID, *, setup: str = "") -> AsyncIterator[TenantSession]:
        """As `tenant_session`, for reads alone: on the replica of `reading`, or else on the primary."""
        replica = current_replica()
        if replica is None:
            opened = self.tenant_session(tenant_id, setup=setup, aside=True)
        else:
            opened = replica.database.open_tenant(tenant_id, setup)
        async with opened as session:
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

    def _open_tenant(
        self, tenant_id: UUID, setup: str, background: timedelta | None
    ) -> AbstractAsyncContextManager[TenantSession]:
        opens = self.open_tenant if self.nodes is None else self.nodes.open
        return opens(tenant_id, setup, background)

    @asynccontextmanager
    async def shared_session(self, tenant_id: UUID) -> AsyncIterator[TenantSession]:
        """A tenant's transaction on what all tenants share, e.g. the turns at a host: no rows of the tenant itself.

        In a cluster it runs on the coordinator. Raises DatabaseUnavailable.
        """
        async with self.open_tenant(tenant_id) as session:
            yield session

    async def join_cluster(self) -> None:
        """If the database is a Citus cluster's, let each tenant's sessions run on the node that holds the tenant.

        Raises DatabaseUnavailable, and ConfigurationError for a lent engine, whose login the nodes would need.
        """
        if self.nodes is None and await is_cluster(self):
            if self.is_lent:
                raise ConfigurationError("engine", "it cannot be lent for a Citus cluster", "give the address")
            patience = self._options.get("connect_timeout", 5.0)
            self.nodes = Nodes(self, self._open_node, patience=patience)
            make_node(self)

    def _open_node(self, address: str) -> Server:
        """Another node, with the settings of this one."""
        node = Server(address, **self._options)
        make_node(node)
        node.tell_of_deleted = self.tell_of_deleted
        return node

    async def holders(self) -> Sequence[Server]:
        """The servers that hold tenants: this one, or the nodes of a cluster. Raises DatabaseUnavailable."""
        return (self,) if self.nodes is None else await self.nodes.holders()

    @asynccontextmanager
    async def keep_warm(self, rehearse: Rehearse, *, setup: str = "") -> AsyncIterator[None]:
        """As `Server.keep_warm`, and of the replicas. On a cluster's nodes each tenant's group has plans of its own."""
        async with contextlib.AsyncExitStack() as stack:
            if self.nodes is None:
                await stack.enter_async_context(super().keep_warm(rehearse, setup=setup))
            for replica in self.replicas.replicas if self.replicas is not None else ():
                await stack.enter_async_context(replica.database.keep_warm(rehearse, setup=setup))
            yield

    @property
    def has_spare_connections(self) -> bool:
        """Whether so few connections are in use, where the running work reads, that it may take a second one."""
        if self.nodes is not None:
            return self.nodes.have_spare
        replica = current_replica()
        return self.has_spare if replica is None else replica.database.has_spare

    async def close(self) -> None:
        """Close all connections, unless the engine was lent."""
        if self.nodes is not None:
            await self.nodes.close()
        await super().close()
