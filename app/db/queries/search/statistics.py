"""What is known of a tenant's stock: for ranking, for upkeep, and for its admin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.db.session import Row, TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)

FREQUENT = 2
"""Entries from which on a lexeme's document frequency is kept: a word in one entry is cheap to count, and the others
are the vocabulary against which misspelt words are held."""


@dataclass(frozen=True, slots=True)
class DueWork:
    """Whether `lexemes` should be counted again, `vectors` indexed, `embeddings` made, a `model_change` continued."""

    lexemes: bool
    vectors: bool
    embeddings: bool
    model_change: bool


async def refresh_lexemes(session: TenantSession) -> None:
    """Count the document frequencies of the tenant's frequent lexemes anew."""
    await session.execute(SQL["reset_changes"])
    await session.execute(SQL["refresh_lexemes"], least=FREQUENT)


async def due_work(session: TenantSession, *, least_entries: int, exact_limit: int) -> DueWork:
    """What the tenant's growth calls for."""
    due = await session.fetch_one_as(
        DueWork, SQL["due_work"], least_entries=least_entries, exact_limit=exact_limit
    )
    assert due is not None
    return due


async def overview(session: TenantSession) -> Row:
    """Counts for the tenant's admin."""
    row = await session.fetch_row(SQL["overview"])
    assert row is not None
    return row


async def searches_by_hour(session: TenantSession) -> Sequence[Row]:
    """The searches of the last 24 hours, counted and timed by hour (UTC)."""
    return await session.fetch(SQL["searches_by_hour"])


async def models_in_use(session: TenantSession) -> Sequence[Row]:
    """The models that the tenant has vectors of or waits for, the one it searches with first."""
    return await session.fetch(SQL["models_in_use"])


async def backlog(session: TenantSession) -> Sequence[Row]:
    """The tenant's queued and running work by kind."""
    return await session.fetch(SQL["backlog"])


async def health(session: TenantSession) -> Row | None:
    """Counts of the tenant, for the platform; None when it is gone."""
    return await session.fetch_row(SQL["health"])
