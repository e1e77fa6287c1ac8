"""Read the nodes and shards of a Citus cluster, and move shards between nodes."""

import asyncio
import contextlib
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import asyncpg
import orjson

from app.db.cluster.metadata import Node
from app.db.cluster.sessions import SQL as PLACES
from app.db.rows import Connection, read_rows
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Whether the server is the coordinator, the tables are distributed, and the role sees the rows of all tenants."""

    coordinator: bool
    distributed: bool
    sees_all_rows: bool


@dataclass(frozen=True, slots=True)
class StoredShard:
    """A shard of `tenants` and the shards of tables colocated with it: place, range of hashes and size."""

    id: int
    host: str
    port: int
    first: int
    last: int
    bytes: int | None

    def is_on(self, node: Node) -> bool:
        """Whether the node holds it."""
        return (self.host, self.port) == (node.host, node.port)


@dataclass(frozen=True, slots=True)
class Connections:
    """The connections that a server allows, and those in use."""

    most: int
    used: int


async def read_state(connection: Connection) -> ClusterState | None:
    """The server's part in a cluster, or None if it belongs to none."""
    if not await connection.fetchval(PLACES["has_citus"].sql):
        return None
    return read_rows(ClusterState, await connection.fetch(SQL["state"].sql))[0]


async def list_shards(connection: Connection) -> list[StoredShard]:
    """All shards, by their range of hashes."""
    return read_rows(StoredShard, await connection.fetch(SQL["shards"].sql))


async def count_tenants(connection: Connection, shards: Sequence[StoredShard]) -> list[int]:
    """The number of tenants in each of all shards. Raises PostgresError if a node does not answer."""
    rows = await connection.fetch(SQL["count_tenants"].sql, [shard.first for shard in shards])
    numbers = {row["number"]: row["tenants"] for row in rows}
    return [numbers.get(number, 0) for number in range(1, len(shards) + 1)]


async def count_connections(connection: Connection) -> Connections:
    """The connections of the server that this one leads to."""
    return read_rows(Connections, await connection.fetch(SQL["connections"].sql))[0]


def find_shard(shards: Sequence[StoredShard], hashed: int) -> StoredShard:
    """The shard whose range has the hash; the shards are ordered, and cover all hashes."""
    return shards[bisect_right(shards, hashed, key=lambda shard: shard.first) - 1]


Mode = Literal["force_logical", "block_writes"]
"""How Citus copies: while writes continue, except at the very end, or while they wait."""

PAUSE = 0.02
"""Seconds between two checks whether a write would wait."""


@dataclass(frozen=True, slots=True)
class PlacedTenant:
    """A tenant, and the hash that determines its shard."""

    id: UUID
    hash: int


async def find_tenant(connection: Connection, slug: str) -> PlacedTenant | None:
    """The tenant with this slug."""
    row = await connection.fetchrow(SQL["find_tenant"].sql, slug)
    return None if row is None else PlacedTenant(UUID(int=row["id"].int), row["hash"])


async def divide(connection: Connection, shard: StoredShard, hashed: int, target: Node, mode: Mode) -> None:
    """Divide a shard into the part with one hash and the parts before and after it, on another node.

    Citus cannot replicate changes of rows to parts on the same node. Raises PostgresError.
    """
    ends = [end for end in (hashed - 1, hashed) if shard.first <= end < shard.last]
    nodes = [target.id] * (len(ends) + 1)
    await connection.execute(SQL["divide"].sql, shard.id, [str(end) for end in ends], nodes, mode)


async def move(connection: Connection, shard: StoredShard, target: Node, mode: Mode) -> None:
    """Move a shard, with the colocated shards of all tables. Raises PostgresError."""
    await connection.execute(SQL["move"].sql, shard.id, shard.host, shard.port, target.host, target.port, mode)


async def clean(connection: Connection) -> None:
    """Drop the former placements of moved and divided shards. Raises PostgresError."""
    await connection.execute(SQL["clean"].sql)


async def adopt(holder: Connection, shard: int) -> None:
    """Prepare a shard that has arrived on a node, as its next request there would."""
    await holder.execute(SQL["adopt"].sql, shard)


async def note_move(
    connection: Connection, actor: str, tenant_id: UUID, detail: Mapping[str, Any], *, refused: bool
) -> None:
    """Write a move to the platform's trail."""
    outcome = "refused" if refused else "done"
    await connection.execute(SQL["note"].sql, actor, tenant_id, orjson.dumps(detail).decode(), outcome)


class HoldWatch:
    """Measures how long writes to a shard wait, as one writer after another would.

    Attributes:
        longest: seconds of the longest wait; None before the first.
    """

    def __init__(self, shard: int) -> None:
        self._shard = shard
        self.longest: float | None = None

    @asynccontextmanager
    async def on(self, holder: Connection) -> AsyncIterator[None]:
        """Look on a connection to the node that holds the shard, until the block ends."""
        watching = asyncio.create_task(self._look(holder))
        try:
            yield
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def _look(self, holder: Connection) -> None:
        """Look until cancelled, or until the shard no longer exists."""
        while True:
            started = time.perf_counter()
            try:
                await holder.execute(SQL["wait_for_write"].sql, self._shard)
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                return
            finally:
                self.longest = max(self.longest or 0.0, time.perf_counter() - started)
            await asyncio.sleep(PAUSE)
