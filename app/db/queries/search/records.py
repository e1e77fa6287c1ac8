"""What is remembered of searches and changes: access counts, the audit trail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

import orjson

from app.db.identifiers import new_id
from app.db.queries.search.search import EntryFilter
from app.db.rows import Position
from app.db.session import Row, TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)

Outcome = Literal["done", "refused"]

Action = Literal[
    "access",
    "asset.delete",
    "asset.retry",
    "asset.upload",
    "audit.read",
    "entry.delete",
    "entry.purge",
    "entry.update",
    "entry.write",
    "feedback.read",
    "feedback.write",
    "model.drop",
    "model.pace",
    "model.read",
    "model.reembed",
    "model.switch",
    "saved_search.delete",
    "saved_search.write",
    "search.read",
    "settings.read",
    "settings.update",
    "stats.read",
    "subscription.delete",
    "subscription.list",
    "subscription.write",
    "tenant.export",
    "tenant.import",
]
"""What a tenant's audit trail tells of; `tests/api/acts.py` has each done."""


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


async def write_audit(
    session: TenantSession,
    actor: str,
    action: Action,
    subject_ids: Sequence[UUID],
    detail: Mapping[str, Any],
    *,
    outcome: Outcome = "done",
) -> None:
    """Note a change or an administrative read, in the transaction that makes it; metadata only, never content."""
    await session.execute(
        SQL["write_audit"],
        id=new_id(),
        actor=actor,
        action=action,
        subject_ids=list(subject_ids),
        detail=orjson.dumps(detail).decode(),
        outcome=outcome,
    )


async def list_audit(session: TenantSession, before: Position | None, limit: int) -> Sequence[Row]:
    """The audit trail, newest first."""
    at, last_id = before or (None, None)
    return await session.fetch(SQL["list_audit"], before_at=at, before_id=last_id, limit=limit)
