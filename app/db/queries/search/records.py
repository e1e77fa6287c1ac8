"""What helps a search: how often entries were shown, and what is near to its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from app.db.queries.search.search import EntryFilter
from app.db.session import Row, TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


async def count_accesses(session: TenantSession, accesses: Mapping[UUID, int]) -> None:
    """Add to how often entries were shown; entries that are gone are passed over."""
    await session.execute(
        SQL["count_accesses"],
        ids=list(accesses),
        accesses=list(accesses.values()),
    )


async def boost_facts(session: TenantSession, ids: Sequence[UUID]) -> Sequence[Row]:
    """Type, verification and access count of entries."""
    return await session.fetch(SQL["boost_facts"], ids=list(ids))


async def suggest_tags(
    session: TenantSession, words: Sequence[str], least: float, limit: int
) -> Sequence[Row]:
    """Tags that resemble the words, then the tenant's most used ones: rows of tag and likeness.

    Likeness is a trigram similarity; it is None where it is not above `least`.
    """
    return await session.fetch(SQL["suggest_tags"], words=list(words), least=least, limit=limit)


async def suggest_lexemes(
    session: TenantSession, query: str, entry_filter: EntryFilter, least: float, limit: int
) -> Sequence[Row]:
    """Lexemes that resemble words of the query, each with likeness and an entry that has it and passes the filter.

    Rows of lexeme, likeness, language, title and content (the first 20,000 characters), the most alike first.
    """
    return await session.fetch(
        SQL["suggest_lexemes"],
        query=query,
        filter=entry_filter.as_row(),
        least=least,
        limit=limit,
    )
