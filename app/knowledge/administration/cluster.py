"""Show the nodes of a Citus cluster, and move tenants between them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias
from uuid import UUID

import asyncpg

from app.db.cluster import moves
from app.db.cluster.metadata import Node as StoredNode
from app.db.cluster.metadata import list_nodes
from app.db.cluster.moves import Connections, StoredShard
from app.db.rows import Connection
from app.errors import ConfigurationError, Conflict, InvalidInput, TenantNotFound

ConnectNode: TypeAlias = Callable[[str, int], AbstractAsyncContextManager[Connection]]
"""Opens a connection to a node, as the owner of the tables. Raises ConfigurationError."""

LIBRARY = "may not be used as an output plugin"
"""Part of the message of Postgres 18.6 and newer when the library that divides shards is not allowed."""

NOTED = ("shard", "source", "target", "tenants", "isolated")
"""The record of a move in the platform's audit trail, with its mode."""


@dataclass(frozen=True, slots=True)
class Node:
    """A server of the cluster, and its load.

    Attributes:
        shards: parts of the tables that move together; each tenant is in one of them.
        tenants: None if a node of the cluster does not answer.
        bytes: rows and indexes of its shards; None if it does not answer.
        connections: those in use, of `most_connections`; None if it does not answer.
    """

    host: str
    port: int
    role: Literal["coordinator", "worker"]
    shards: int
    tenants: int | None
    bytes: int | None
    connections: int | None
    most_connections: int | None


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of all tables that moves together, and its place."""

    shard: int
    host: str
    port: int
    tenants: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class TenantMove:
    """The outcome of a move.

    Attributes:
        tenants: the number of tenants in the shard, all of which moved.
        isolated: whether the tenant got a shard of its own for it.
        held_seconds: the longest time that a write to the shard would have waited; None: not measured, since
            the node could not be reached from here.
    """

    id: UUID
    slug: str
    shard: int
    source: str
    target: str
    tenants: int
    isolated: bool
    bytes: int | None
    seconds: float
    held_seconds: float | None


class Cluster:
    """Reads and moves shards, through a connection to the coordinator as the owner of the tables."""

    def __init__(self, coordinator: Connection, connect: ConnectNode) -> None:
        self._coordinator = coordinator
        self._connect = connect

    async def nodes(self) -> list[Node]:
        """All nodes with their load, the coordinator first."""
        stored = await list_nodes(self._coordinator)
        shards = await self.shards()
        used = await asyncio.gather(*(self._count_connections(node) for node in stored))
        return [
            _describe(node, [s for s in shards if (s.host, s.port) == (node.host, node.port)], connections)
            for node, connections in zip(stored, used, strict=True)
        ]

    async def shards(self) -> list[Shard]:
        """All shards, the largest first."""
        stored = await moves.list_shards(self._coordinator)
        try:
            tenants: Sequence[int | None] = await moves.count_tenants(self._coordinator, stored)
        except asyncpg.PostgresError:
            tenants = [None] * len(stored)
        found = [Shard(s.id, s.host, s.port, number, s.bytes) for s, number in zip(stored, tenants, strict=True)]
        return sorted(found, key=lambda s: (-(s.bytes or 0), s.shard))

    async def move(
        self, slug: str, host: str, port: int, *, alone: bool = False, mode: moves.Mode, actor: str
    ) -> TenantMove:
        """Move a tenant's shard to a node, or with `alone` only the tenant; recorded in the platform's trail.

        Callers are served in the meantime; they wait for the last moment of the copy, or with the mode
        `block_writes` for all of it, until their time limit. Raises TenantNotFound, InvalidInput, and Conflict where
        Citus refuses.
        """
        tenant = await moves.find_tenant(self._coordinator, slug)
        if tenant is None:
            raise TenantNotFound.of(slug)
        known = await list_nodes(self._coordinator)
        target = _choose(known, host, port)
        before = await moves.list_shards(self._coordinator)
        source = moves.find_shard(before, tenant.hash)
        divides = alone and source.first != source.last
        if source.is_on(target) and not divides:
            raise InvalidInput.of("--to", f"{slug} is already on {host}:{port}")
        via = _choose_other(known, source, target) if divides else None
        started = time.perf_counter()
        watch = moves.HoldWatch(source.id)
        refusal: asyncpg.PostgresError | None = None
        async with self._watching(source, watch):
            try:
                await self._carry_out(tenant, source, target, via, mode)
            except asyncpg.PostgresError as error:
                refusal = error
        seconds = time.perf_counter() - started
        shards = await moves.list_shards(self._coordinator)
        shard = moves.find_shard(shards, tenant.hash)
        numbers = await moves.count_tenants(self._coordinator, shards)
        done = TenantMove(
            id=tenant.id,
            slug=slug,
            shard=shard.id,
            source=f"{source.host}:{source.port}",
            target=f"{target.host}:{target.port}",
            tenants=numbers[shards.index(shard)],
            isolated=divides and shard.first == shard.last,
            bytes=shard.bytes,
            seconds=seconds,
            held_seconds=watch.longest,
        )
        detail = {name: getattr(done, name) for name in NOTED} | {"mode": mode}
        await moves.note_move(self._coordinator, actor, tenant.id, detail, refused=refusal is not None)
        await self._complete(before, shards)
        if refusal is not None:
            raise Conflict(_explain(refusal)) from refusal
        return done

    async def _carry_out(
        self,
        tenant: moves.PlacedTenant,
        source: StoredShard,
        target: StoredNode,
        via: StoredNode | None,
        mode: moves.Mode,
    ) -> None:
        """Move the shard, or with `via` divide it there and move its parts to the target and back."""
        if via is None:
            await moves.move(self._coordinator, source, target, mode)
            return
        home = next(n for n in await list_nodes(self._coordinator) if source.is_on(n))
        await moves.divide(self._coordinator, source, tenant.hash, via, mode)
        for part in await moves.list_shards(self._coordinator):
            if source.first <= part.first and part.last <= source.last:
                wanted = target if part.first <= tenant.hash <= part.last else home
                if not part.is_on(wanted):
                    await moves.move(self._coordinator, part, wanted, mode)

    @asynccontextmanager
    async def _watching(self, shard: StoredShard, watch: moves.HoldWatch) -> AsyncIterator[None]:
        """Measure, unless only the coordinator can be reached from here."""
        async with AsyncExitStack() as stack:
            with contextlib.suppress(ConfigurationError):
                holder = await stack.enter_async_context(self._connect(shard.host, shard.port))
                await stack.enter_async_context(watch.on(holder))
            yield

    async def _complete(self, before: Sequence[StoredShard], shards: Sequence[StoredShard]) -> None:
        """Drop the leftovers of moved shards, and prepare new shards on their nodes.

        Failed steps are repeated later: by Citus itself, and by the next request of a tenant.
        """
        with contextlib.suppress(asyncpg.PostgresError):
            await moves.clean(self._coordinator)
        known = {(s.id, s.host, s.port) for s in before}
        for shard in shards:
            if (shard.id, shard.host, shard.port) not in known:
                with contextlib.suppress(asyncpg.PostgresError, ConfigurationError):
                    async with self._connect(shard.host, shard.port) as holder:
                        await moves.adopt(holder, shard.id)

    async def _count_connections(self, node: StoredNode) -> Connections | None:
        try:
            async with self._connect(node.host, node.port) as connection:
                return await moves.count_connections(connection)
        except ConfigurationError:
            return None


def _describe(node: StoredNode, shards: Sequence[Shard], used: Connections | None) -> Node:
    return Node(
        host=node.host,
        port=node.port,
        role="coordinator" if node.is_coordinator else "worker",
        shards=len(shards),
        tenants=_total(shard.tenants for shard in shards),
        bytes=_total(shard.bytes for shard in shards),
        connections=None if used is None else used.used,
        most_connections=None if used is None else used.most,
    )


def _total(numbers: Iterable[int | None]) -> int | None:
    """The sum, or None if a number is missing."""
    found = list(numbers)
    return None if None in found else sum(number for number in found if number is not None)


def _choose(known: Sequence[StoredNode], host: str, port: int) -> StoredNode:
    """The node with this address. Raises InvalidInput if it cannot take a shard."""
    takers = [node for node in known if node.takes_shards]
    for node in takers:
        if (node.host, node.port) == (host, port):
            return node
    names = ", ".join(f"{node.host}:{node.port}" for node in takers) or "none"
    raise InvalidInput.of("--to", f"{host}:{port} is not a node that holds tenants; these are: {names}")


def _choose_other(known: Sequence[StoredNode], source: StoredShard, target: StoredNode) -> StoredNode:
    """The node to which a shard is divided: the target, unless the shard is there. Raises Conflict."""
    others = [node for node in known if node.takes_shards and not source.is_on(node)]
    if not others:
        raise Conflict("a shard can only be divided if another node takes its parts for a moment")
    return target if target in others else others[0]


def _explain(error: asyncpg.PostgresError) -> str:
    """The reason of a refusal, with what to do."""
    reason = str(error).removeprefix("ERROR:  ").splitlines()[0]
    if LIBRARY in reason:
        return (
            "the workers do not allow Citus to divide a shard while writes go on: "
            "set output_plugin_libraries = 'pgoutput, test_decoding, citus' on every node and reload it, "
            "or use --block-writes"
        )
    return f"Citus refused the move: {reason}"
