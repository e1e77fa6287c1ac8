"""What callers say of their searches' hits, as stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class FeedbackCounts:
    """Hits that were called relevant and not relevant, and searches that found nothing."""

    relevant: int
    not_relevant: int
    without_results: int


@dataclass(frozen=True, slots=True)
class EmptySearch:
    """A query that found nothing, and how often."""

    query: str
    searches: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class DislikedEntry:
    """An entry that was found and not wanted; `queries` are a few that it was not wanted for, where they are kept."""

    entry_id: UUID
    title: str | None
    entry_type: str
    not_relevant: int
    relevant: int
    last_at: datetime
    queries: Sequence[str]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether an entry is relevant to a query, which is in lowercase."""

    query: str
    entry_id: UUID
    relevant: bool


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


async def count_feedback(session: TenantSession, age: timedelta) -> FeedbackCounts:
    """Feedback and searches that are not older than `age`."""
    counts = await session.fetch_one_as(FeedbackCounts, SQL["counts"], age=age)
    assert counts is not None
    return counts


async def list_empty_searches(session: TenantSession, age: timedelta, limit: int) -> list[EmptySearch]:
    """Queries that found nothing, the most frequent first."""
    return await session.fetch_as(EmptySearch, SQL["empty_searches"], age=age, limit=limit)


async def list_disliked(session: TenantSession, age: timedelta, limit: int) -> list[DislikedEntry]:
    """Entries that callers called not relevant, those that most did first, with up to five of the queries."""
    return await session.fetch_as(DislikedEntry, SQL["disliked"], age=age, limit=limit)


async def list_judgements(session: TenantSession) -> list[Judgement]:
    """What callers say of entries as answers to queries, by majority."""
    return await session.fetch_as(Judgement, SQL["judgements"])
