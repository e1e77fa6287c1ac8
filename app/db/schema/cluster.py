"""The nodes of a Citus cluster: the coordinator, which has the database's address, and the workers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

import asyncpg

from app.db.schema.catalog import check_server, connect
from app.errors import ConfigurationError

HAS_CITUS = "select exists (select from pg_extension where extname = 'citus')"
IS_DISTRIBUTED = (
    "select exists (select from pg_dist_partition where logicalrelid = to_regclass('public.tenants'))"
)
LIST_NODES = """
    select nodename as host, nodeport as port, groupid = 0 as is_coordinator,
           isactive and hasmetadata and metadatasynced as is_ready
      from pg_dist_node where noderole = 'primary' and nodecluster = current_setting('citus.cluster_name')
     order by groupid"""

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@dataclass(frozen=True, slots=True)
class Node:
    """A server of the cluster; `is_ready`: it has the metadata of the cluster."""

    host: str
    port: int
    is_coordinator: bool
    is_ready: bool

    def __str__(self) -> str:
        return f"node {self.host}:{self.port}"


async def has_citus(connection: Connection) -> bool:
    """Whether the database has the extension, i.e. is part of a cluster."""
    return bool(await connection.fetchval(HAS_CITUS))


async def list_nodes(connection: Connection) -> Sequence[Node]:
    """The nodes of the cluster, the coordinator first."""
    return [Node(**row) for row in await connection.fetch(LIST_NODES)]


@asynccontextmanager
async def connected(dsn: str, node: Node, setting: str) -> AsyncIterator[Connection]:
    """A connection to the node, with the role and options of `dsn`. Raises ConfigurationError."""
    try:
        connection = await connect(dsn, setting, host=node.host, port=node.port)
    except ConfigurationError as error:
        raise at_node(node, error) from error
    try:
        yield connection
    finally:
        await connection.close()


def at_node(node: Node, error: ConfigurationError) -> ConfigurationError:
    """The same error, with the name of the node."""
    return ConfigurationError(error.setting, f"{node}: {error.problem}", error.remedy)


async def check_cluster(connection: Connection, dsn: str, setting: str) -> None:
    """Raise ConfigurationError unless `dsn` is the coordinator's, and every node has what the schema needs."""
    if await connection.fetchval("select groupid <> 0 from pg_dist_local_group"):
        raise ConfigurationError(
            setting, "this is a worker of the cluster", "use the address of the coordinator"
        )
    nodes = await list_nodes(connection)
    if not any(node.is_coordinator for node in nodes):
        raise ConfigurationError(
            setting,
            "the coordinator is not a node of the cluster",
            "a superuser runs there: select citus_set_coordinator_host('ITS HOST NAME', ITS PORT)",
        )
    for node in nodes:
        if not node.is_ready:
            raise ConfigurationError(
                setting,
                f"{node} does not have the cluster's metadata",
                "a superuser runs on the coordinator: select start_metadata_sync_to_all_nodes()",
            )
        async with connected(dsn, node, setting) as there:
            await _check_node(there, node, setting)


async def _check_node(connection: Connection, node: Node, setting: str) -> None:
    if not await has_citus(connection):
        raise ConfigurationError(
            setting,
            f"{node}: the extension citus is missing",
            "a superuser runs there: create extension citus",
        )
    try:
        await check_server(connection)
    except ConfigurationError as error:
        raise at_node(node, error) from error
    if await connection.fetchval("show citus.enable_unsafe_triggers") != "on":
        raise ConfigurationError(
            setting,
            f"{node}: citus.enable_unsafe_triggers is off",
            "a superuser runs there: alter system set citus.enable_unsafe_triggers = on; select pg_reload_conf()",
        )
    if not await connection.fetchval("select rolcreaterole from pg_roles where rolname = current_user"):
        raise ConfigurationError(
            setting, f"{node}: the role may not create roles", "run deploy/roles.sql on every node"
        )
