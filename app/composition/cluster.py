"""The nodes of a Citus cluster, for the commands that look at them and move tenants."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import asyncpg

from app.db.queries.cluster.nodes import Connection, read_state
from app.db.schema import catalog
from app.errors import ConfigurationError
from app.knowledge.administration.cluster import Cluster
from app.settings import Settings

SETTING = "DATABASE_ADMIN_URL"


@contextlib.asynccontextmanager
async def open_cluster(settings: Settings, *, for_moves: bool = False) -> AsyncIterator[Cluster]:
    """Connect to the coordinator; `for_moves` requires a role that sees all rows. Raises ConfigurationError."""
    address = settings.database.admin_url
    if address is None:
        if settings.database.embedded:
            raise ConfigurationError(None, "the embedded database is one server, not a Citus cluster")
        raise ConfigurationError(SETTING, "must be set to the role that owns the tables, on the coordinator")
    dsn = address.get_secret_value()

    @contextlib.asynccontextmanager
    async def connect(host: str, port: int) -> AsyncIterator[Connection]:
        async with catalog.using(await catalog.connect(dsn, SETTING, host=host, port=port)) as connection:
            yield connection

    async with catalog.using(await catalog.connect(dsn, SETTING)) as coordinator:
        state = await read_state(coordinator)
        if state is None:
            raise ConfigurationError(SETTING, "the database is one server, not a Citus cluster")
        if not state.coordinator:
            raise ConfigurationError(
                SETTING, "leads to a worker of the cluster", "use the coordinator's address"
            )
        if not state.distributed:
            raise ConfigurationError(SETTING, "the tables are not distributed yet", "run: knowledge migrate")
        if for_moves and not state.sees_all_rows:
            raise ConfigurationError(
                SETTING,
                "row-level security applies to the role, so a move would copy none of the tenants' rows",
                "use a superuser of the cluster for this command",
            )
        try:
            yield Cluster(coordinator, connect)
        except asyncpg.PostgresConnectionError as error:
            if coordinator.is_closed():
                raise
            raise ConfigurationError(
                None, "the coordinator cannot reach a node of the cluster", "run: knowledge nodes"
            ) from error
