"""What callers say of their searches' hits, as stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from app.db.session import Row, TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


async def put_feedback(
    session: TenantSession, search_id: UUID, entry_id: UUID, subject: str, relevant: bool, query: str | None
) -> datetime:
    """Keep a caller's word on a hit, in place of the earlier one. Raises asyncpg.ForeignKeyViolationError."""
    at: datetime = await session.fetch_value(
        SQL["put"],
        search_id=search_id,
        entry_id=entry_id,
        subject=subject,
        relevant=relevant,
        query=query,
    )
    return at


async def erase_queries(session: TenantSession) -> None:
    """Forget what was asked in searches and feedback, unless the tenant keeps it."""
    await session.execute(SQL["erase_queries"])


async def count_feedback(session: TenantSession, age: timedelta) -> Row:
    """Rows of relevant, not_relevant and without_results (searches)."""
    row = await session.fetch_row(SQL["counts"], age=age)
    assert row is not None
    return row


async def list_empty_searches(session: TenantSession, age: timedelta, limit: int) -> Sequence[Row]:
    """Queries that found nothing: rows of query, searches and last_at, the most frequent first."""
    return await session.fetch(SQL["empty_searches"], age=age, limit=limit)


async def list_disliked(session: TenantSession, age: timedelta, limit: int) -> Sequence[Row]:
    """Entries that callers called not relevant, with counts and up to five of the queries."""
    return await session.fetch(SQL["disliked"], age=age, limit=limit)


async def list_judgements(session: TenantSession) -> Sequence[Row]:
    """Rows of query (in small letters), entry_id and relevant."""
    return await session.fetch(SQL["judgements"])
