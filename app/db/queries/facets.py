"""Facets of a search, and tags and words to suggest when it finds nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from app.db.queries.search import EntryFilter, VectorSpace
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class MatchQuery:
    """The conditions under which an entry matches a search.

    Attributes:
        text: the query, if entries are compared by their words; None: they are not.
        words: the words of the query; empty if it is an identifier that has to match as a whole.
        vector: the query's vector, if all passages are compared.
        ids: all entries that pass the filter, if they are few.
        near: matches that are known already.
        alternatives: queries for what entries can have in place of words.
        pending_only: of the entries with a word of the query, only those without a vector match.
    """

    text: str | None
    words: str
    vector: Any | None
    max_distance: float
    entry_filter: EntryFilter
    ids: Sequence[UUID] | None = None
    near: Sequence[UUID] = ()
    pending_only: bool = False
    alternatives: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CountedValue:
    """The number of matches that have a value; of `other` and `missing` ones, without it.

    Without a name, it is the number of all matches.
    """

    name: str | None
    value: str | int | float | bool | None
    count: int
    kind: Literal["value", "other", "missing"]
    complete: bool


async def count_values(
    session: TenantSession,
    space: VectorSpace,
    query: MatchQuery,
    names: Sequence[str],
    keys: Sequence[str],
    *,
    most: int,
    values: int,
    longest: int,
) -> list[CountedValue]:
    """The values of the fields `names` and of the metadata `keys` among the matches; `most` bounds those by words.

    At most `values` of each are returned, none longer than `longest` characters; the others are counted together.
    """
    return await session.fetch_as(
        CountedValue,
        SQL["facets"].literal(model_id=space.model_id, dimensions=space.dimensions),
        query=query.text,
        words=query.words,
        vector=query.vector,
        max_distance=query.max_distance,
        filter=query.entry_filter.as_row(),
        ids=None if query.ids is None else list(query.ids),
        near=list(query.near),
        pending_only=query.pending_only,
        alternatives=list(query.alternatives),
        names=list(names),
        keys=list(keys),
        most=most,
        values=values,
        longest=longest,
    )


@dataclass(frozen=True, slots=True)
class SimilarTag:
    """A tag of the tenant, and its trigram similarity to a word; None where that is not above the least."""

    tag: str
    likeness: float | None


@dataclass(frozen=True, slots=True)
class SimilarLexeme:
    """A lexeme that resembles a word, and an entry that has it; `content` is its first 20,000 characters."""

    lexeme: str
    likeness: float
    language: str
    title: str | None
    content: str


async def suggest_tags(session: TenantSession, words: Sequence[str], least: float, limit: int) -> Sequence[SimilarTag]:
    """Tags that resemble the words, then the tenant's most used ones."""
    return await session.fetch_as(SimilarTag, SQL["suggest_tags"], words=list(words), least=least, limit=limit)


async def suggest_lexemes(
    session: TenantSession, query: str, entry_filter: EntryFilter, least: float, limit: int
) -> Sequence[SimilarLexeme]:
    """Lexemes that resemble words of the query, the most alike first, each with an entry that passes the filter."""
    return await session.fetch_as(
        SimilarLexeme,
        SQL["suggest_lexemes"],
        query=query,
        filter=entry_filter.as_row(),
        least=least,
        limit=limit,
    )
