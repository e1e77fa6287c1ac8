"""The semantic leg of a search: the nearest entries, and entries without a vector."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.contract.vocabulary import MOST_PENDING
from app.db.queries.search import EntryFilter, LegHit, VectorSpace
from app.db.session import Row, TenantSession
from app.db.statements import Statement, at_time, load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class VectorMatches:
    """The entries nearest to a vector, best first.

    Attributes:
        matches: number of entries within the distance, estimated where not all of them were checked.
        pending: number of entries that pass the filter and have no vector yet, at the moment of the search.
        enough: False if the index ended early; there may be more entries than it returned.
        complete: False if a bound was reached before all former versions were compared that pass the filter.
    """

    hits: Sequence[LegHit]
    matches: int
    pending: int
    enough: bool = True
    complete: bool = True


MOST_COMPARED = 200_000
"""Passages of former texts that a search of a past time compares."""

MOST_CHECKED = 5_000
"""Former versions, or their nearest passages, that a search of a past time checks against the filter."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """What the semantic leg looks for: at most `limit` entries within a distance of a vector."""

    space: VectorSpace
    vector: Any
    max_distance: float
    entry_filter: EntryFilter
    limit: int

    async def fetch(self, session: TenantSession, statement: str, **bounds: Any) -> Sequence[Row]:
        """The rows of a statement for it."""
        return await session.fetch(
            self.space.literal(SQL[statement]),
            vector=self.vector,
            max_distance=self.max_distance,
            filter=self.entry_filter.as_row(),
            limit=self.limit,
            most_pending=MOST_PENDING,
            **bounds,
        )


async def rehearse(session: TenantSession, space: VectorSpace, vector: Any) -> None:
    """Run the exact scan and the cosines once and discard the results, so that the connection has their plans."""
    await find_exactly(session, Nearest(space, vector, 2.0, EntryFilter(), 1))
    await cosines(session, space, vector, [])


async def find_exactly(session: TenantSession, wanted: Nearest, ids: Sequence[UUID] | None = None) -> VectorMatches:
    """Nearest entries of the whole tenant or of `ids`, which pass the filter, by comparing all of their passages."""
    if ids is None:
        return _vector_matches(await wanted.fetch(session, "exact_all"))
    return _vector_matches(await wanted.fetch(session, "exact_ids", ids=list(ids)))


def _vector_matches(rows: Sequence[Row]) -> VectorMatches:
    # The first row also carries the counts; it is there even if no entry was found.
    hits = [LegHit(*row[:4]) for row in rows if row[0]]
    return VectorMatches(hits, rows[0]["matches"], rows[0]["pending"])


async def explain_indexed(session: TenantSession, space: VectorSpace) -> str:
    """The plan of `indexed`, without running it; the session must have the leg's settings."""
    statement = _indexed_statement(session, space)
    values = _indexed_values([1.0] + [0.0] * (space.dimensions - 1), EntryFilter())
    explained = replace(statement, sql=f"explain (costs off) {statement.sql}")
    return "\n".join(row[0] for row in await session.fetch(explained, **values))


def _indexed_statement(session: TenantSession, space: VectorSpace) -> Statement:
    # Each large tenant has an index of its own, and a statement that names it.
    return SQL["indexed"].literal(tenant_id=session.tenant_id, model_id=space.model_id, dimensions=space.dimensions)


def _indexed_values(vector: Any, entry_filter: EntryFilter) -> dict[str, Any]:
    return {"vector": vector, "filter": entry_filter.as_row(), "most_pending": MOST_PENDING}


async def indexed(session: TenantSession, wanted: Nearest) -> VectorMatches:
    """Nearest entries in the order of the tenant's HNSW index, read until there are enough distinct ones."""
    nearest: dict[UUID, LegHit] = {}
    enough = False
    pending = 0
    values = _indexed_values(wanted.vector, wanted.entry_filter)
    rows = session.stream(_indexed_statement(session, wanted.space), wanted.limit, **values)
    async for batch in rows:
        pending = batch[0]["pending"]
        if not batch[0]["complete"]:
            break
        for hit in (LegHit(*row[:4]) for row in batch):
            known = nearest.get(hit.entry_id)
            if known is None or hit.value > known.value:
                nearest[hit.entry_id] = hit
        if len(nearest) >= wanted.limit or 1 - hit.value > wanted.max_distance:
            enough = True
            break
    # Relaxed order: the index may return a nearer passage slightly late.
    ranked = sorted(nearest.values(), key=lambda hit: (-hit.value, -hit.updated_at.timestamp(), hit.entry_id.bytes))
    within = [hit for hit in ranked if 1 - hit.value <= wanted.max_distance]
    return VectorMatches(within[: wanted.limit], len(within), pending, enough)


async def count_pending(session: TenantSession, space: VectorSpace, entry_filter: EntryFilter) -> int:
    """Count the entries that pass the filter and have no vector yet."""
    return int(
        await session.fetch_value(
            SQL["pending" if entry_filter.as_of is None else "pending_then"].literal(model_id=space.model_id),
            filter=entry_filter.as_row(),
            most_pending=MOST_PENDING,
        )
    )


async def count_passages(session: TenantSession, space: VectorSpace) -> int:
    """The number of the model's passages that the caller may read."""
    return int(await session.fetch_value(SQL["count_passages"].literal(model_id=space.model_id)))


async def has_vectors(session: TenantSession, space: VectorSpace, entry_filter: EntryFilter) -> bool:
    """Whether any entry that passes the filter has a vector of the model, or had one at the filter's time."""
    statement = SQL["has_vectors"].literal(model_id=space.model_id)
    if await session.fetch_value(statement, filter=entry_filter.as_row()):
        return True
    if entry_filter.as_of is None:
        return False
    statement = SQL["has_former_vectors"].literal(model_id=space.model_id)
    values = {"filter": entry_filter.as_row(), "as_of": entry_filter.as_of, "most_checked": MOST_CHECKED}
    return bool(await session.fetch_value(statement, **values))


async def former_nearest(session: TenantSession, wanted: Nearest) -> VectorMatches:
    """Nearest former versions of the filter's time: of all that pass it, if they can be found among MOST_CHECKED.

    Otherwise MOST_COMPARED passages are compared, and the versions of the nearest MOST_CHECKED are checked.
    """
    as_of = wanted.entry_filter.as_of
    ids = await session.fetch_value(SQL["former_ids"], filter=wanted.entry_filter.as_row(), limit=MOST_CHECKED)
    if ids is None:
        bounds = {"most_compared": MOST_COMPARED, "most_checked": MOST_CHECKED}
        rows = await wanted.fetch(session, "former_nearest", as_of=as_of, **bounds)
    else:
        rows = await wanted.fetch(session, "former_of_ids", as_of=as_of, ids=list(ids))
    return replace(_vector_matches(rows), complete=rows[0]["complete"])


async def cosines(
    session: TenantSession, space: VectorSpace, vector: Any, ids: Sequence[UUID], as_of: datetime | None = None
) -> dict[UUID, float]:
    """The similarity of each of the given entries that has a vector."""
    statement, moment = at_time(SQL, "cosines", as_of)
    return await session.fetch_pairs(space.literal(statement), vector=vector, ids=list(ids), **moment)


async def first_vectors(
    session: TenantSession, space: VectorSpace, ids: Sequence[UUID], as_of: datetime | None = None
) -> dict[UUID, NDArray[np.float32]]:
    """The vector of each entry's first passage, if it has one; a unit vector, as stored."""
    statement, moment = at_time(SQL, "first_vectors", as_of)
    rows = await session.fetch(statement.literal(model_id=space.model_id), ids=list(ids), **moment)
    return {row["entry_id"]: row["embedding"].to_numpy().astype(np.float32) for row in rows}
