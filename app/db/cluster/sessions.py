"""Open a tenant's sessions on the node of the Citus cluster that holds the tenant, and write statements for it.

On that node, a statement names the shards themselves, e.g. `entries_102008` for `entries`. Postgres then plans it as
on plain tables: Citus would plan it again in each execution, and refuses some of the statements. A marked text has
`@{entries}` in the place of each table that has shards, and of each function that reads such tables.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from functools import lru_cache
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit
from uuid import UUID

import asyncpg

from app.db.server import Server
from app.db.session import TenantSession
from app.db.statements import load_statements
from app.errors import DatabaseUnavailable

TAKES_ROW: Mapping[str, str] = {
    "entry_avoids": "entries",
    "entry_fields": "entries",
    "entry_fulfils": "entries",
    "entry_matches": "entries",
    "entry_passes": "entries",
    "former_entry": "former_entries",
}
"""Functions whose first argument has the row type of a table, which a row of a shard does not have."""

_AFTER_TABLE = (
    *("as", "where", "set", "on", "order", "select", "values", "limit", "group", "using", "left", "join", "cross"),
    *("inner", "right", "full", "union", "for", "returning", "default", "offset", "having", "except", "loop"),
)
"""Words that can follow a table without being its alias."""

_MARK = re.compile(r"@\{([\w.]+)\}")


def mark(text: str, tables: Iterable[str], functions: Iterable[str], *, casts: bool = True) -> str:
    """Mark the tables and functions of an SQL text; with `casts`, functions of TAKES_ROW get rows of their tables.

    A table without an alias keeps its name as one, so that its columns can be qualified.
    """
    table = "|".join(sorted(tables, key=len, reverse=True))
    found = re.compile(
        rf"\b(?P<verb>from|join|into|update|using)(?P<space>\s+)(?:public\.)?(?P<table>{table})\b(?![.(])"
        rf"(?P<alias>\s+(?!(?:{'|'.join(_AFTER_TABLE)})\b)[a-z_]+)?",
        re.IGNORECASE,
    )

    def name(match: re.Match[str]) -> str:
        alias = match["alias"] or f" as {match['table']}"
        if re.match(r"\s+as\b", text[match.end() :]):
            alias = ""
        return f"{match['verb']}{match['space']}public.@{{{match['table']}}}{alias}"

    text = found.sub(name, text)
    text = re.sub(rf"'(?:public\.)?({table})'::regclass", r"'public.@{\1}'::regclass", text)
    if casts:
        text = re.sub(
            rf"\b({'|'.join(TAKES_ROW)})\((\w+)(?=\)|, )",
            lambda match: f"{match[1]}(row({match[2]}.*)::public.{TAKES_ROW[match[1]]}",
            text,
        )
    names = "|".join(re.escape(function) for function in functions)
    if not names:
        return text
    return re.sub(
        rf"(?<![\w.])(?:public\.)?({names})\(",
        lambda match: f"{'' if '.' in match[1] else 'public.'}@{{{match[1]}}}(",
        text,
    )


def fill(marked: str, names: Mapping[str, str]) -> str:
    """The text with a name in the place of each mark. Raises KeyError for a mark without a name."""
    return _MARK.sub(lambda match: names[match[1]], marked)


SHOW_SHARDS = "set local citus.override_table_visibility=off;"
"""Citus hides shards and their indexes from queries of the catalog."""


def make_node(server: Server) -> None:
    """Let the sessions of no tenant on a server see and use the groups that it holds."""
    server.write, server.entrance = write_for_node, SHOW_SHARDS


def write_for_node(sql: str) -> str:
    """The text of a statement that concerns all tenants of a node: the queue is that of its groups."""
    return re.sub(r"\bqueue\.(\w+)\(", r"shards.\1(", sql)


@lru_cache(maxsize=4096)
def mark_statement(sql: str, tables: frozenset[str], functions: frozenset[str]) -> str:
    """As `mark`, remembered."""
    return mark(sql, tables, functions)


SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """A group of shards on a node: a tenant's rows are in one group, which a move takes to another node."""

    group: int
    node: Server
    names: Mapping[str, str]
    tables: frozenset[str]
    functions: frozenset[str]
    _written: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, group: int, node: Server, shards: Mapping[str, str], functions: Iterable[str]) -> Place:
        """The place of a group, with the names of its shards and of its copies of functions."""
        copies = {name: f"{name}_{group}" for name in functions}
        return cls(group, node, {**shards, **copies}, frozenset(shards), frozenset(copies))

    @property
    def entrance(self) -> str:
        """The SQL that begins a transaction in this group."""
        return f"{SHOW_SHARDS}select shards.enter({self.group:d});"

    def write(self, sql: str) -> str:
        """The text of a statement with the names of this group."""
        written = self._written.get(sql)
        if written is None:
            if len(self._written) >= MOST_STATEMENTS:
                self._written.clear()
            written = self._written[sql] = fill(mark_statement(sql, self.tables, self.functions), self.names)
        return written


MOST_STATEMENTS = 2048
"""Texts that a place remembers; those with literals are many."""


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """A group of shards and the address of its node, as the metadata of the cluster has them."""

    group: int
    host: str
    port: int
    tables: list[str]
    shards: list[str]
    functions: list[str]


async def find_place(node: Server, tenant_id: UUID) -> FoundPlace | None:
    """Ask a node where a tenant's rows are, or would be. Raises DatabaseUnavailable."""
    async with node.platform_session() as session:
        return await session.fetch_one_as(FoundPlace, SQL["find_place"], tenant=tenant_id)


async def adopt_group(node: Server, group: int) -> None:
    """Complete a group that has arrived on a node. Raises DatabaseUnavailable."""
    async with node.platform_session() as session:
        await session.execute(SQL["adopt"], group=group)


async def list_holders(node: Server) -> Iterable[tuple[str, int]]:
    """The hosts and ports of the nodes that hold tenants. Raises DatabaseUnavailable."""
    async with node.platform_session() as session:
        return [(row["host"], row["port"]) for row in await session.fetch(SQL["list_holders"])]


async def is_cluster(node: Server) -> bool:
    """Whether the tenants of this database are distributed over the nodes of a cluster."""
    async with node.platform_session() as session:
        return bool(await session.fetch_value(SQL["has_citus"]) and await session.fetch_value(SQL["is_distributed"]))


MOVED, NOT_ADOPTED, HELD = "KB001", "KB002", "KB003"
"""The errors of `shards.enter`."""

LONGEST_PAUSE = 0.1
"""Seconds between tries, in which the caller has no connection."""

HOLDERS_SECONDS = 5.0
"""How long the list of the nodes that hold tenants is used."""

MOST_TENANTS = 100_000
"""Tenants whose place is remembered."""


@dataclass(eq=False)
class Nodes:
    """The nodes that hold tenants, each with connections of its own, and the place of each tenant.

    Shards move and split while the service runs. A tenant's place is looked up once. Each transaction begins by
    checking it (`shards.enter`). If the tenant has moved, it is looked up again before any other statement runs.

    `make` creates the database of a node from its address. `patience`: seconds that a caller waits for a tenant that is
    being moved, and again at each place that it comes to: a division moves the parts of a shard back.
    """

    coordinator: Server
    make: Callable[[str], Server]
    _: KW_ONLY
    patience: float
    _nodes: dict[tuple[str, int], Server] = field(default_factory=dict, init=False)
    _places: dict[tuple[int, str, int], Place] = field(default_factory=dict, init=False)
    _of_tenants: dict[UUID, Place] = field(default_factory=dict, init=False)
    _holders: list[Server] = field(default_factory=list, init=False)
    _listed_until: float = field(default=0.0, init=False)

    @asynccontextmanager
    async def open(self, tenant_id: UUID, setup: str, background: timedelta | None) -> AsyncIterator[TenantSession]:
        """A session at the place of the tenant, as `Server.open_tenant` opens it. Raises DatabaseUnavailable."""
        async with AsyncExitStack() as stack:
            yield await self._enter(stack, tenant_id, setup, background)

    async def _enter(
        self, stack: AsyncExitStack, tenant_id: UUID, setup: str, background: timedelta | None
    ) -> TenantSession:
        deadline = time.monotonic() + self.patience
        former: Place | None = None
        for tried in itertools.count():
            try:
                place = await self.place_of(tenant_id)
                if place is not former:
                    former, deadline = place, time.monotonic() + self.patience
                opened = place.node.open_tenant(
                    tenant_id, setup, background, entrance=place.entrance, write=place.write
                )
                return await stack.enter_async_context(opened)
            except _Nowhere:
                if time.monotonic() > deadline:
                    raise
            except DatabaseUnavailable:
                self._of_tenants.pop(tenant_id, None)  # another server may replace this one
                raise
            except asyncpg.PostgresError as error:
                if error.sqlstate == MOVED:
                    self._of_tenants.pop(tenant_id, None)
                elif error.sqlstate == NOT_ADOPTED:
                    await self._adopt(place)
                elif error.sqlstate != HELD:
                    raise
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(min(0.01 * tried, LONGEST_PAUSE))
        raise DatabaseUnavailable("the tenant is being moved")

    async def _adopt(self, place: Place) -> None:
        try:
            await adopt_group(place.node, place.group)
        except asyncpg.PostgresError as error:
            if error.sqlstate != MOVED:
                raise

    async def place_of(self, tenant_id: UUID) -> Place:
        """The known place of a tenant: a move may be noticed later. Raises DatabaseUnavailable."""
        place = self._of_tenants.get(tenant_id)
        if place is None:
            found = await self._find(tenant_id)
            key = (found.group, found.host, found.port)
            place = self._places.get(key)
            if place is None:
                shards = dict(zip(found.tables, found.shards, strict=True))
                place = self._places[key] = Place.of(
                    found.group, self._node(found.host, found.port), shards, found.functions
                )
            if len(self._of_tenants) >= MOST_TENANTS:
                self._of_tenants.pop(next(iter(self._of_tenants)))
            self._of_tenants[tenant_id] = place
        return place

    async def _find(self, tenant_id: UUID) -> FoundPlace:
        """Ask the coordinator, and the other nodes if it does not answer: each has the same metadata."""
        failure: DatabaseUnavailable | None = None
        for node in (self.coordinator, *self._nodes.values()):
            try:
                found = await find_place(node, tenant_id)
            except DatabaseUnavailable as error:
                failure = failure or error
                continue
            if found is not None:
                return found
        raise failure or _Nowhere("no node of the cluster holds the tenant")

    async def holders(self) -> Sequence[Server]:
        """The databases of all nodes that hold tenants. Raises DatabaseUnavailable."""
        if time.monotonic() > self._listed_until:
            try:
                listed = await list_holders(self.coordinator)
            except DatabaseUnavailable:
                if not self._holders:
                    raise
            else:
                self._holders = [self._node(host, port) for host, port in listed]
                self._listed_until = time.monotonic() + HOLDERS_SECONDS
        return self._holders

    @property
    def have_spare(self) -> bool:
        """Whether so few connections of every node are in use that a caller may take two."""
        return all(node.has_spare for node in self._nodes.values())

    def _node(self, host: str, port: int) -> Server:
        node = self._nodes.get((host, port))
        if node is None:
            node = self._nodes[host, port] = self.make(address_of(self.coordinator.dsn, host, port))
        return node

    async def close(self) -> None:
        """Close the connections of all nodes except the coordinator."""
        for node in self._nodes.values():
            await node.close()


class _Nowhere(DatabaseUnavailable):
    """The metadata has no place: a query that runs while a division ends finds the new shard but not its node."""


def address_of(dsn: str, host: str, port: int) -> str:
    """The address of another server for the same database, with the same role and options."""
    parts = urlsplit(dsn)
    login = parts.netloc.rpartition("@")[0]
    options = [(name, value) for name, value in parse_qsl(parts.query) if name not in ("host", "port")]
    where = f"[{host}]" if ":" in host else quote(host, safe=".-_")
    netloc = f"{login}@{where}:{port}" if login else f"{where}:{port}"
    return urlunsplit(parts._replace(netloc=netloc, query=urlencode(options)))
