"""Reads the texts that a reranker compares with the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.queries.search.search import EntryFilter, VectorSpace
from app.db.session import TenantSession
from app.db.statements import at_time, load_statements

SQL = load_statements(__name__)

LEAD = 200
"""Characters before the first word of the query, if the words choose the part of an entry."""


@dataclass(frozen=True, slots=True)
class Passage:
    """The part of an entry that is nearest to a query."""

    id: UUID
    title: str | None
    text: str


async def fetch_passages(
    session: TenantSession,
    space: VectorSpace,
    ids: Sequence[UUID],
    query: str,
    vector: Any | None,
    entry_filter: EntryFilter,
    most: int,
) -> list[Passage]:
    """At most `most` characters of each of these entries that still passes the filter, in no order."""
    statement, moment = at_time(SQL, "passages", entry_filter.as_of)
    return await session.fetch_as(
        Passage,
        statement.literal(model_id=space.model_id, dimensions=space.dimensions),
        ids=list(ids),
        query=query,
        vector=vector,
        filter=entry_filter.as_row(),
        most=most,
        lead=LEAD,
        **moment,
    )
