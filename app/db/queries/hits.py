"""The entries of a search's hits, and why an entry is not a hit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from app.contract.results import FoundEntry, Validity
from app.db.queries.search import EntryFilter, Sought
from app.db.session import TenantSession
from app.db.statements import at_time, load_statements

SQL = load_statements(__name__)


class HydratedEntry(NamedTuple):
    """An entry with the data for its snippet.

    Attributes:
        stored: the values of a FoundEntry, in the order of its fields.
        media_type: that of the asset.
        source: that of the asset.
        agreed_at: when the source last agreed with its origin.
        query_lexemes: the lexemes of the query, stemmed in the entry's language.
        char_start, char_end: the passage nearest to the query's vector, if there is one.
        passing: number of entries of the page that pass the filter; fewer are read when they are too large.
    """

    id: UUID
    title: str | None
    content: str
    stored: Sequence[Any]
    language: str
    media_type: str | None
    source: str | None
    agreed_at: datetime | None
    query_lexemes: Sequence[str] | None
    char_start: int | None
    char_end: int | None
    passing: int


STORED = len(fields(FoundEntry))


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an entry relates to a search.

    `failed` are those of FILTERS that it does not pass, and `excluded` the excluded words that it has.

    `repeated`: an entry that passes them has the same text from the same bytes, and is found instead.
    `cosine` is the similarity of its nearest passage, None while it has no vector.
    """

    unexpired: bool
    current: bool
    released: bool
    failed: Sequence[str]
    excluded: Sequence[str]
    repeated: bool
    shares_words: bool
    has_phrases: bool
    cosine: float | None


async def hydrate(session: TenantSession, sought: Sought, ids: Sequence[UUID], most_bytes: int) -> list[HydratedEntry]:
    """The entries with these ids that still pass the filter, in the order of `ids`, up to the one with which they have
    `most_bytes`."""
    statement, moment = at_time(SQL, "hydrate", sought.entry_filter.as_of)
    values = {**sought.as_parameters(), "ids": list(ids), "most_bytes": most_bytes, **moment}
    rows = await session.fetch(sought.space.literal(statement), **values)
    return [HydratedEntry(row["id"], row["title"], row["content"], row[:STORED], *row[STORED:]) for row in rows]


async def assets_of(session: TenantSession, ids: Sequence[UUID], as_of: datetime | None = None) -> dict[UUID, UUID]:
    """The assets of the entries that are chunks."""
    statement, moment = at_time(SQL, "assets_of", as_of)
    return await session.fetch_pairs(statement, ids=list(ids), **moment)


async def count_named(
    session: TenantSession, ids: Sequence[UUID], numbers: str, as_of: datetime | None = None
) -> dict[UUID, int]:
    """How many of the words `numbers` each of these entries has."""
    statement, moment = at_time(SQL, "named", as_of)
    return await session.fetch_pairs(statement, ids=list(ids), numbers=numbers, **moment)


async def fetch_validity(session: TenantSession, ids: Sequence[UUID], as_of: datetime) -> dict[UUID, Validity]:
    """When the versions of these entries that were valid at a time began and ended."""
    rows = await session.fetch(SQL["validity"], ids=list(ids), as_of=as_of)
    return {row["id"]: Validity(row["valid_from"], row["valid_until"]) for row in rows}


async def fetch_verdict(
    session: TenantSession, sought: Sought, entry_id: UUID, alternatives: Sequence[str], *, required: str | None = None
) -> Verdict | None:
    """How an entry relates to a search; None if there is no such entry.

    `alternatives` are queries for what stands for words of the query, and `required` is one for its phrases.
    """
    parts, excluded = sought.entry_filter.split(), sought.entry_filter.excluded
    row = await session.fetch_row(
        sought.space.literal(SQL["verdict"]),
        id=entry_id,
        alternatives=list(alternatives),
        parts=[part.as_row() for part in (*parts.values(), *(EntryFilter(excluded=(each,)) for each in excluded))],
        required=required,
        **sought.as_parameters(),
    )
    if row is None:
        return None
    names = [*parts, *(each.term for each in excluded)]
    failed = [place for place, passed in enumerate(row["passed"]) if not passed]
    plain = ("unexpired", "current", "released", "repeated", "shares_words", "has_phrases", "cosine")
    return Verdict(
        failed=[names[place] for place in failed if place < len(parts)],
        excluded=[names[place] for place in failed if place >= len(parts)],
        **{name: row[name] for name in plain},
    )


@dataclass(frozen=True, slots=True)
class BoostFacts:
    """The inputs of an entry's boosts; `accesses` is how often it was read."""

    id: UUID
    entry_type: str
    is_verified: bool
    accesses: int


async def boost_facts(
    session: TenantSession, ids: Sequence[UUID], as_of: datetime | None = None
) -> Sequence[BoostFacts]:
    """The inputs of these entries' boosts, with accesses until now."""
    statement, moment = at_time(SQL, "boost_facts", as_of)
    return await session.fetch_as(BoostFacts, statement, ids=list(ids), **moment)


async def count_accesses(session: TenantSession, accesses: Mapping[UUID, int]) -> None:
    """Add to how often entries were read; entries that no longer exist are skipped."""
    await session.execute(SQL["count_accesses"], ids=list(accesses), accesses=list(accesses.values()))


LEAD = 200
"""Characters before the first word of the query, if the words choose the part of an entry."""


@dataclass(frozen=True, slots=True)
class Passage:
    """The part of an entry that is nearest to a query."""

    id: UUID
    title: str | None
    text: str


async def fetch_passages(session: TenantSession, sought: Sought, ids: Sequence[UUID], most: int) -> list[Passage]:
    """At most `most` characters of each of these entries that still passes the filter, in no order."""
    statement, moment = at_time(SQL, "passages", sought.entry_filter.as_of)
    values = {**sought.as_parameters(), "ids": list(ids), "most": most, "lead": LEAD, **moment}
    return await session.fetch_as(Passage, sought.space.literal(statement), **values)
