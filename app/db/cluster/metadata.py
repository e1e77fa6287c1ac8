"""The nodes of a Citus cluster: the coordinator, which has the database's address, and the workers."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncpg

from app.db.cluster.sessions import MOVED
from app.db.cluster.sessions import SQL as PLACES
from app.db.rows import Connection
from app.db.schema.catalog import check_server, connect, using
from app.db.statements import load_statements
from app.errors import ConfigurationError

SQL = load_statements(__name__)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Node:
    """A server of the cluster; `is_ready`: it has the metadata of the cluster; `takes_shards`: it may hold some."""

    id: int
    host: str
    port: int
    is_coordinator: bool
    is_ready: bool
    takes_shards: bool

    def __str__(self) -> str:
        return f"node {self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard on a server: its name and oid, and those of the table that it is part of (`base`).

    One that is not here (`is_here`) has left, or is being copied to the server; no session uses it.
    """

    name: str
    oid: int
    table: str
    base: int
    is_here: bool


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a server knows of its cluster.

    Attributes:
        is_distributed: false for one server, which has nothing else of this.
        is_coordinator: whether the server is the coordinator.
        shards: the shards on this server.
        distributed: the oids of the tables that shards are parts of, and that have no rows themselves.
        groups: for each shard of `tenants`, the names of the tables' shards that hold the same tenants.
        functions: the functions that each group has copies of.
    """

    is_distributed: bool = False
    is_coordinator: bool = False
    shards: Sequence[Shard] = ()
    distributed: Sequence[int] = ()
    groups: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    functions: Sequence[str] = ()


ONE_SERVER = Metadata()


async def read_metadata(connection: Connection) -> Metadata:
    """The server's part in a cluster; the transaction has `citus.override_table_visibility` off."""
    if not await is_distributed(connection):
        return ONE_SERVER
    shards = await connection.fetch(SQL["list_shards"].sql)
    groups = await connection.fetch(SQL["list_groups"].sql)
    return Metadata(
        is_distributed=True,
        is_coordinator=await connection.fetchval(SQL["is_coordinator"].sql),
        shards=[Shard(**row) for row in shards],
        distributed=[row["oid"] for row in await connection.fetch(SQL["list_distributed"].sql)],
        groups={row["number"]: dict(zip(row["tables"], row["shards"], strict=True)) for row in groups},
        functions=[row["name"] for row in await connection.fetch(SQL["list_copied"].sql)],
    )


async def adopt_groups(connection: Connection) -> None:
    """Complete the groups of shards that have arrived on this node and that no session has used yet."""
    if not await is_distributed(connection):
        return
    for row in await connection.fetch(SQL["list_local_groups"].sql):
        try:
            async with connection.transaction():
                await connection.execute(SQL["adopt"].sql, row["number"])
        except asyncpg.PostgresError as error:
            if error.sqlstate != MOVED:
                raise


async def list_differences(connection: Connection) -> list[str]:
    """The policies and triggers of the shards on this node that are not those of their tables, one fault each."""
    return [row["fault"] for row in await connection.fetch(SQL["list_differences"].sql)]


async def has_citus(connection: Connection) -> bool:
    """Whether the database has the extension, i.e. is part of a cluster."""
    return bool(await connection.fetchval(PLACES["has_citus"].sql))


async def is_distributed(connection: Connection) -> bool:
    """Whether the tables are distributed over a cluster."""
    return await has_citus(connection) and bool(await connection.fetchval(PLACES["is_distributed"].sql))


async def list_nodes(connection: Connection) -> Sequence[Node]:
    """The nodes of the cluster, the coordinator first."""
    return [Node(**row) for row in await connection.fetch(SQL["list_nodes"].sql)]


@asynccontextmanager
async def connected(dsn: str, node: Node, setting: str) -> AsyncIterator[Connection]:
    """A connection to the node, with the role and options of `dsn`. Raises NodeUnreachable and DatabaseUnavailable."""
    try:
        connection = await connect(dsn, setting, host=node.host, port=node.port)
    except ConfigurationError as error:
        raise NodeUnreachable(error.setting, f"{node}: {error.problem}", error.remedy) from error
    async with using(connection):
        yield connection


class NodeUnreachable(ConfigurationError):
    """A node of the cluster accepts no connection, or not with this role."""


def at_node(node: Node, error: ConfigurationError) -> ConfigurationError:
    """The same error, with the name of the node."""
    return ConfigurationError(error.setting, f"{node}: {error.problem}", error.remedy)


async def check_coordinator(connection: Connection, setting: str) -> None:
    """Raise ConfigurationError if the connection leads to a worker."""
    if not await connection.fetchval(SQL["is_coordinator"].sql):
        raise ConfigurationError(setting, "the address is that of a worker of the cluster", "use the coordinator's")


async def check_prepared(connection: Connection, setting: str) -> None:
    """Raise ConfigurationError for a node that was added to the cluster after the last migration."""
    if await connection.fetchval("select to_regnamespace('shards') is null"):
        raise ConfigurationError(
            setting, "the server does not have the functions of the service yet", "run: knowledge migrate"
        )


async def check_cluster(connection: Connection, dsn: str, setting: str) -> None:
    """Raise ConfigurationError unless `dsn` is the coordinator's, and every node meets the needs of the schema."""
    await check_coordinator(connection, setting)
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


async def check_nodes(
    coordinator: Connection, dsn: str, setting: str, check: Callable[[Connection], Awaitable[None]]
) -> None:
    """Check each worker of a cluster that answers; `dsn` is the address of the coordinator, or of one server.

    Raises ConfigurationError with the name of the node, and DatabaseUnavailable.
    """
    if not await is_distributed(coordinator):
        return
    await check_coordinator(coordinator, setting)
    for node in await list_nodes(coordinator):
        if node.is_coordinator:
            continue
        try:
            async with connected(dsn, node, setting) as connection:
                await check_prepared(connection, setting)
                await check(connection)
        except NodeUnreachable as error:
            log.warning("%s is not checked: %s", node, error.problem)
        except ConfigurationError as error:
            raise at_node(node, error) from error


async def _check_node(connection: Connection, node: Node, setting: str) -> None:
    if not await has_citus(connection):
        raise ConfigurationError(
            setting, f"{node}: the extension citus is missing", "a superuser runs there: create extension citus"
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
