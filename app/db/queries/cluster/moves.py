"""Moves of a Citus cluster's shards from node to node."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import asyncpg
import orjson

from app.db.queries.cluster.nodes import Connection, StoredNode, StoredShard
from app.db.statements import load_statements

SQL = load_statements(__name__)
Mode = Literal["force_logical", "block_writes"]
"""How Citus copies: while writes go on, except in the last moment, or while they wait."""

PAUSE = 0.02
"""Seconds between two looks at whether a write would wait."""


@dataclass(frozen=True, slots=True)
class PlacedTenant:
    """A tenant, and the hash that determines its shard."""

    id: UUID
    hash: int


async def find_tenant(connection: Connection, slug: str) -> PlacedTenant | None:
    """The tenant with this slug."""
    row = await connection.fetchrow(SQL["find_tenant"].sql, slug)
    return None if row is None else PlacedTenant(UUID(int=row["id"].int), row["hash"])


async def divide(
    connection: Connection, shard: StoredShard, hashed: int, target: StoredNode, mode: Mode
) -> None:
    """Divide a shard into the part with one hash, and what is before and after it; all come to another node.

    To another node, since Citus cannot replicate changes of rows to parts on the same one. Raises PostgresError.
    """
    ends = [end for end in (hashed - 1, hashed) if shard.first <= end < shard.last]
    nodes = [target.id] * (len(ends) + 1)
    await connection.execute(SQL["divide"].sql, shard.id, [str(end) for end in ends], nodes, mode)


async def move(connection: Connection, shard: StoredShard, target: StoredNode, mode: Mode) -> None:
    """Move a shard, with those of all tables. Raises PostgresError."""
    await connection.execute(
        SQL["move"].sql, shard.id, shard.host, shard.port, target.host, target.port, mode
    )


async def clean(connection: Connection) -> None:
    """Drop the former placements of moved and divided shards. Raises PostgresError."""
    await connection.execute(SQL["clean"].sql)


async def adopt(holder: Connection, shard: int) -> None:
    """Make a shard that has come to a node ready for the service, as its next request there would."""
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
