"""Feedback of callers on their hits: a report for the tenant's admin, and judged queries to measure rankings with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from app.db.database import Database
from app.db.queries.search import feedback as db
from app.db.queries.search.feedback import DislikedEntry, EmptySearch, Judgement
from app.db.queries.tenants import audit
from app.errors import EntryNotFound, InvalidInput, SearchNotFound
from app.knowledge.audit import AuditTrail
from app.knowledge.entries.accesses import AccessCounter
from app.knowledge.search.journal.records import SearchJournal
from app.knowledge.tenants.directory import TenantDirectory

REPORTED = timedelta(days=30)
"""Period of the report; searches without results are kept for the same time."""
MAX_LISTED = 50


@dataclass(frozen=True, slots=True)
class Feedback:
    """A caller's judgement of one hit."""

    search_id: UUID
    entry_id: UUID
    relevant: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class FeedbackReport:
    """Feedback of the last 30 days; without `queries_kept` it contains no queries."""

    days: int
    queries_kept: bool
    relevant: int
    not_relevant: int
    searches_without_results: int
    empty_searches: Sequence[EmptySearch]
    disliked: Sequence[DislikedEntry]


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query of the tenant, with entries that were judged relevant (1.0) or not (0.0)."""

    query: str
    grades: Mapping[UUID, float]


class FeedbackService:
    """Stores feedback on searches of the last 24 hours, and reports on it."""

    def __init__(
        self,
        database: Database,
        trail: AuditTrail,
        tenants: TenantDirectory,
        journal: SearchJournal,
        accesses: AccessCounter,
    ) -> None:
        self._database = database
        self._trail = trail
        self._tenants = tenants
        self._journal = journal
        self._accesses = accesses

    async def give(
        self, tenant_id: UUID, subject: str, search_id: UUID, entry_id: UUID, relevant: bool
    ) -> Feedback:
        """Store a caller's judgement of a hit of its own search; it replaces an earlier judgement of the hit.
        A relevant hit counts as read.

        The query is stored with it only if the tenant keeps queries. Raises SearchNotFound (also for another caller's
        search), InvalidInput for an entry that the search did not find, EntryNotFound for an entry that was deleted, or
        that the caller may not read any more.
        """
        async with self._trail.attempt(tenant_id, subject, "feedback.write", [search_id, entry_id]):
            kept = await self._journal.find(tenant_id, search_id)
            if kept is None or kept.subject != subject:
                raise SearchNotFound("you ran no search with this id in the last 24 hours")
            receipt = kept.receipt
            if entry_id not in {candidate.id for candidate in receipt.ranking}:
                raise InvalidInput.of("entry_id", "must be a hit of that search")
            settings = (await self._tenants.context(tenant_id)).settings
            query = receipt.query if settings.keep_query_text else None
            try:
                async with self._database.tenant_session(tenant_id) as session:
                    at = await db.put_feedback(session, search_id, entry_id, subject, relevant, query)
                    detail = {"relevant": relevant}
                    await audit.write_audit(session, subject, "feedback.write", [search_id, entry_id], detail)
            except (asyncpg.ForeignKeyViolationError, asyncpg.InsufficientPrivilegeError):
                raise EntryNotFound("the entry no longer exists") from None
        if relevant:
            self._accesses.note(tenant_id, entry_id)
        return Feedback(search_id, entry_id, relevant, at)

    async def report(self, tenant_id: UUID, *, reader: str | None = None) -> FeedbackReport:
        """Report searches without results and disliked hits; with `reader`, recorded in the audit trail."""
        kept = (await self._tenants.context(tenant_id)).settings.keep_query_text
        async with self._database.tenant_session(tenant_id) as session:
            counts = await db.count_feedback(session, REPORTED)
            empty = await db.list_empty_searches(session, REPORTED, MAX_LISTED) if kept else []
            disliked = await db.list_disliked(session, REPORTED, MAX_LISTED)
            await self._trail.note_read(session, reader, "feedback.read")
        return FeedbackReport(
            days=REPORTED.days,
            queries_kept=kept,
            relevant=counts.relevant,
            not_relevant=counts.not_relevant,
            searches_without_results=counts.without_results,
            empty_searches=empty,
            disliked=disliked if kept else [replace(entry, queries=[]) for entry in disliked],
        )

    async def judged_queries(self, tenant_id: UUID, *, reader: str | None = None) -> list[JudgedQuery]:
        """List queries with at least one relevant entry; with `reader`, recorded in the audit trail."""
        async with self._database.tenant_session(tenant_id) as session:
            rows = await db.list_judgements(session)
            await self._trail.note_read(session, reader, "feedback.read")
        return judge_queries(rows)


def judge_queries(judgements: Sequence[Judgement]) -> list[JudgedQuery]:
    """Group judgements by query; queries without a relevant entry are omitted."""
    grades: dict[str, dict[UUID, float]] = {}
    for judgement in judgements:
        grades.setdefault(judgement.query, {})[judgement.entry_id] = float(judgement.relevant)
    return [JudgedQuery(query, found) for query, found in grades.items() if any(found.values())]
