"""The statements of a search's legs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """The conditions of a search on entries, without the text; None matches all. Order of SQL's `entry_filter`."""

    include_superseded: bool = False
    roles: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    all_tags: bool = False
    entry_types: tuple[str, ...] | None = None
    min_confidence: float | None = None
    scope: str | None = None
    source: str | None = None
    asset_ids: tuple[UUID, ...] | None = None
    metadata_json: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether every visible entry passes."""
        return self == EntryFilter(include_superseded=self.include_superseded)

    def as_row(self) -> tuple[Any, ...]:
        """The composite value for Postgres."""
        return (
            self.include_superseded,
            self.roles,
            self.tags,
            self.all_tags,
            self.entry_types,
            self.min_confidence,
            self.scope,
            self.source,
            self.asset_ids,
            self.metadata_json,
        )


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """A registered model in SQL: literals that select its partial index."""

    model_id: int
    dimensions: int


@dataclass(frozen=True, slots=True)
class KeywordQuery:
    """The query of the keyword leg.

    Attributes:
        text: the query as given by the caller.
        limit: number of entries to find.
        budget: postings to read for candidates, rarest words first.
        pool: minimum number of candidates that are scored by all words.
        phrases: quoted parts of the text.
        corrections: additional lexemes to search for, which replace words that no entry has.
        whole: search only for the identifiers in the text, not for words that are parts of them.
    """

    text: str
    entry_filter: EntryFilter
    limit: int
    budget: int
    pool: int
    phrases: tuple[str, ...] = ()
    corrections: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class LegHit:
    """An entry found by one leg; `value` is a cosine similarity or a BM25 score."""

    entry_id: UUID
    updated_at: datetime
    value: float


@dataclass(frozen=True, slots=True)
class KeywordMatches:
    """The entries found by the words of a query, best first.

    Attributes:
        total: number of entries with at least one of the words, approximate and capped.
        full_match: BM25 of an entry that covers the whole query.
        unknown: lexemes of the query that no entry has; None if nothing was found.
    """

    hits: Sequence[LegHit]
    total: int = 0
    full_match: float = 0.0
    unknown: Sequence[str] | None = None


CORRECTION_WEIGHT = 0.7
"""The weight of a corrected word, relative to a word that is spelt as in the entries."""


async def match_words(session: TenantSession, query: KeywordQuery) -> KeywordMatches:
    """The best entries by BM25."""
    rows = await session.fetch(
        SQL["keyword_leg"],
        query=query.text,
        words="" if query.whole else query.text,
        phrases=list(query.phrases),
        corrections=list(query.corrections),
        correction_weight=CORRECTION_WEIGHT,
        filter=query.entry_filter.as_row(),
        limit=query.limit,
        budget=query.budget,
        pool=query.pool,
    )
    if not rows:
        return KeywordMatches([])
    hits = [LegHit(row["entry_id"], row["updated_at"], row["score"]) for row in rows]
    return KeywordMatches(hits, rows[0]["candidates"], rows[0]["best"], rows[0]["unknown"])


async def rehearse(session: TenantSession, space: VectorSpace, vector: Any) -> None:
    """Run the statements of the legs once and discard the results, so that the connection has their plans."""
    nothing = EntryFilter()
    await session.fetch(SQL["rehearse_keyword_leg"], filter=nothing.as_row())
    await match_words(session, KeywordQuery("rehearsal", nothing, 1, 1, 1))
    await exact_all(session, space, vector, 2.0, nothing, 1)
    await indexed(session, space, vector, 2.0, nothing, 1)


async def similar_lexemes(session: TenantSession, text: str, unknown: Sequence[str] | None) -> dict[str, str]:
    """For each of the longest five lexemes of the query that no entry has: the tenant's most similar lexeme.

    `unknown` restricts the lexemes to check; None checks all lexemes of the query.
    """
    rows = await session.fetch(
        SQL["similar_lexemes"],
        query=text,
        unknown=None if unknown is None else list(unknown),
    )
    return {row["misspelt"]: row["correction"] for row in rows}


@dataclass(frozen=True, slots=True)
class LexemeInText:
    """A lexeme, and an entry that has it; `content` is its first 20,000 characters."""

    lexeme: str
    language: str
    title: str | None
    content: str


async def entries_with_lexemes(
    session: TenantSession, lexemes: Sequence[str], ids: Sequence[UUID]
) -> Sequence[LexemeInText]:
    """For each of the lexemes, the first of these entries that has it."""
    return await session.fetch_as(
        LexemeInText, SQL["entries_with_lexemes"], lexemes=list(lexemes), ids=list(ids)
    )


async def filtered_ids(session: TenantSession, entry_filter: EntryFilter, limit: int) -> list[UUID]:
    """Ids of entries that pass the filter, at most `limit`."""
    ids: list[UUID] = await session.fetch_value(
        SQL["filtered_ids"], filter=entry_filter.as_row(), limit=limit
    )
    return ids


async def exact_all(
    session: TenantSession,
    space: VectorSpace,
    vector: Any,
    max_distance: float,
    entry_filter: EntryFilter,
    limit: int,
) -> list[LegHit]:
    """Nearest entries of the whole tenant, by comparing all passages."""
    rows = await session.fetch(
        SQL["exact_all"].literal(model_id=space.model_id, dimensions=space.dimensions),
        vector=vector,
        max_distance=max_distance,
        filter=entry_filter.as_row(),
        limit=limit,
    )
    return [LegHit(*row) for row in rows]


async def exact_ids(
    session: TenantSession,
    space: VectorSpace,
    vector: Any,
    max_distance: float,
    ids: Sequence[UUID],
    limit: int,
) -> list[LegHit]:
    """Nearest of the given entries, by comparing all of their passages."""
    rows = await session.fetch(
        SQL["exact_ids"].literal(model_id=space.model_id, dimensions=space.dimensions),
        vector=vector,
        max_distance=max_distance,
        ids=list(ids),
        limit=limit,
    )
    return [LegHit(*row) for row in rows]


async def indexed(
    session: TenantSession,
    space: VectorSpace,
    vector: Any,
    max_distance: float,
    entry_filter: EntryFilter,
    wanted: int,
) -> tuple[list[LegHit], bool]:
    """Nearest entries in the order of the HNSW index, read until there are `wanted` distinct ones.

    The second value is False when the scan ended before that; there may be more than the index returned.
    """
    nearest: dict[UUID, LegHit] = {}
    enough = False
    rows = session.stream(
        SQL["indexed"].literal(model_id=space.model_id, dimensions=space.dimensions),
        2 * wanted,
        vector=vector,
        filter=entry_filter.as_row(),
    )
    async for batch in rows:
        for hit in (LegHit(*row) for row in batch):
            known = nearest.get(hit.entry_id)
            if known is None or hit.value > known.value:
                nearest[hit.entry_id] = hit
        if len(nearest) >= wanted or 1 - hit.value > max_distance:
            enough = True
            break
    # Relaxed order: the index may return a nearer passage slightly late.
    ranked = sorted(nearest.values(), key=lambda hit: (-hit.value, hit.entry_id))
    return [hit for hit in ranked if 1 - hit.value <= max_distance][:wanted], enough


async def first_vectors(
    session: TenantSession, space: VectorSpace, ids: Sequence[UUID]
) -> dict[UUID, NDArray[np.float32]]:
    """The vector of each entry's first passage, if it has one; a unit vector, as stored."""
    rows = await session.fetch(SQL["first_vectors"].literal(model_id=space.model_id), ids=list(ids))
    return {row["entry_id"]: row["embedding"].to_numpy().astype(np.float32) for row in rows}
