"""Queries of `knowledge doctor`. They run as the service's role, for one tenant at a time."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from app.contract.administration import Tenant
from app.db.database import Database
from app.db.queries.tenants import list_tenants
from app.db.rows import Connection, read_rows
from app.db.session import Row
from app.db.statements import load_statements

SQL = load_statements(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Server:
    """A database server; `bytes` is the size of the database, `role_connections` is -1 if the role has no limit."""

    version: str
    now: datetime
    bytes: int
    most_connections: int
    connections: int
    role_connections: int


@dataclass(frozen=True, slots=True)
class Extension:
    """The installed version of pgvector, and the version that the server would install."""

    installed: str
    available: str | None


@dataclass(frozen=True, slots=True)
class WordIndex:
    """The index of the keyword leg: the partitions that have it (`attached`), how often it was read, and its size."""

    name: str
    present: bool
    partitions: int
    attached: int
    scans: int
    bytes: int


@dataclass(frozen=True, slots=True)
class VectorIndexes:
    """The indexes that large tenants have of their own: their number, how often they were read, and their size."""

    indexes: int
    scans: int
    bytes: int


@dataclass(frozen=True, slots=True)
class IndexedTenant:
    """A tenant whose vectors are indexed."""

    tenant_id: UUID
    model_id: int
    passages: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """Work and failures of `counted` of `tenants`, and the largest tenant that has an index of its vectors.

    Attributes:
        overdue: jobs that are due; `oldest_seconds` is the longest wait among them.
        lost: jobs whose worker no longer responds.
        failed: tenants' slugs with their assets that could not be read.
        refused: tenants' slugs with their entries that the provider refused permanently.
        pending: entries that wait for their vectors.
    """

    tenants: int
    counted: int
    jobs: int
    overdue: int
    lost: int
    oldest_seconds: float
    failed: dict[str, int]
    refused: dict[str, int]
    pending: int
    largest: IndexedTenant | None


STATEMENTS: Mapping[type, str] = {
    Server: "server",
    Extension: "extension",
    WordIndex: "word_index",
    VectorIndexes: "vector_indexes",
}


async def read(kind: type[T], connection: Connection) -> T:
    """The facts of one of STATEMENTS. Raises IndexError for an extension that is not installed."""
    return read_rows(kind, await connection.fetch(SQL[STATEMENTS[kind]].sql))[0]


async def list_broken_indexes(connection: Connection) -> list[str]:
    """The service's indexes that Postgres does not use."""
    return [row["name"] for row in await connection.fetch(SQL["broken_indexes"].sql)]


async def measure_backlog(database: Database, seconds: float) -> Backlog:
    """Inspect one tenant after another, for about `seconds`. Raises DatabaseUnavailable."""
    deadline = time.monotonic() + seconds
    async with database.platform_session() as session:
        tenants = await list_tenants(session)
    rows: list[tuple[Tenant, Row]] = []
    for tenant in tenants:
        if time.monotonic() > deadline:
            break
        async with database.tenant_session(tenant.id) as own:
            row = await own.fetch_row(SQL["backlog"])
        if row is not None:
            rows.append((tenant, row))
    indexed = [IndexedTenant(t.id, r["model_id"], r["passages"]) for t, r in rows if r["index_state"] == "ready"]
    return Backlog(
        tenants=len(tenants),
        counted=len(rows),
        jobs=sum(r["jobs"] for _, r in rows),
        overdue=sum(r["overdue"] for _, r in rows),
        lost=sum(r["lost"] for _, r in rows),
        oldest_seconds=max((r["oldest_seconds"] or 0.0 for _, r in rows), default=0.0),
        failed={t.slug: r["failed_assets"] for t, r in rows if r["failed_assets"]},
        refused={t.slug: r["refused"] for t, r in rows if r["refused"]},
        pending=sum(r["pending"] for _, r in rows),
        largest=max(indexed, key=lambda found: found.passages, default=None),
    )
