"""Tags and words to suggest where a search found nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.db.queries.search.search import EntryFilter
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


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


async def suggest_tags(
    session: TenantSession, words: Sequence[str], least: float, limit: int
) -> Sequence[SimilarTag]:
    """Tags that resemble the words, then the tenant's most used ones."""
    return await session.fetch_as(
        SimilarTag, SQL["suggest_tags"], words=list(words), least=least, limit=limit
    )


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
