"""Stored feedback of callers on the hits of their searches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from app.contract.receipts import DislikedEntry, EmptySearch
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class FeedbackCounts:
    """Numbers of hits marked relevant and not relevant, and of searches without results."""

    relevant: int
    not_relevant: int
    without_results: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether an entry is relevant to a query, which is in lowercase."""

    query: str
    entry_id: UUID
    relevant: bool


async def put_feedback(
    session: TenantSession, search_id: UUID, entry_id: UUID, subject: str, relevant: bool, query: str | None
) -> datetime:
    """Store a caller's feedback on a hit, replacing earlier feedback. Raises asyncpg.ForeignKeyViolationError."""
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
    """Delete the queries in searches and feedback, unless the tenant keeps them."""
    await session.execute(SQL["erase_queries"])


async def count_feedback(session: TenantSession, age: timedelta) -> FeedbackCounts:
    """Count feedback and searches not older than `age`."""
    counts = await session.fetch_one_as(FeedbackCounts, SQL["counts"], age=age)
    assert counts is not None
    return counts


async def list_empty_searches(session: TenantSession, age: timedelta, limit: int) -> list[EmptySearch]:
    """Queries without results, the most frequent first."""
    return await session.fetch_as(EmptySearch, SQL["empty_searches"], age=age, limit=limit)


async def list_disliked(session: TenantSession, age: timedelta, limit: int) -> list[DislikedEntry]:
    """Entries marked as not relevant, by number of callers, each with up to five of the queries."""
    return await session.fetch_as(DislikedEntry, SQL["disliked"], age=age, limit=limit)


async def list_judgements(session: TenantSession) -> list[Judgement]:
    """The majority judgement of callers on entries as answers to queries."""
    return await session.fetch_as(Judgement, SQL["judgements"])
