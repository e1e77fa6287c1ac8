"""Rows that an erasure removes, and their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.contract.erasures import Dependent
from app.db.queries.erasures import read_dependent
from app.db.queries.versions import erase_versions
from app.db.session import TenantSession
from app.db.statements import Statement, load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class Words:
    """Words and tags whose statistics were deleted."""

    lexemes: Sequence[str]
    tags: Sequence[str]


@dataclass(frozen=True, slots=True)
class VisitedReceipts:
    """The last of the visited searches, None if there was none, and how many of them named an erased entry."""

    last: UUID | None
    rows: int


@dataclass(frozen=True, slots=True)
class DeletedSavedSearches:
    """Saved searches that were deleted, with their subscriptions and deliveries."""

    saved_searches: int
    subscriptions: int
    deliveries: int


async def find_words(session: TenantSession, ids: Sequence[UUID]) -> list[str]:
    """The words of entries."""
    return list(await session.fetch_value(SQL["words"], ids=list(ids)))


async def find_dependents(
    session: TenantSession, erasure_id: UUID, *, entries: Sequence[UUID] = (), asset_id: UUID | None = None
) -> list[Dependent]:
    """Items that depend on these entries or on this asset, or have the same content."""
    if asset_id is not None:
        rows = await session.fetch(SQL["dependents_of_asset"], id=erasure_id, asset_id=asset_id)
    else:
        rows = await session.fetch(SQL["dependents"], id=erasure_id, ids=list(entries))
    return [read_dependent(row) for row in rows]


async def find_former_dependents(
    session: TenantSession, erasure_id: UUID, subject: str | None, limit: int
) -> tuple[list[Dependent], int]:
    """Former versions of items that are not erased: copies, derived ones, and what the subject may have written.

    Those of the chunks of an asset have no number. Returns at most `limit`, and the number of all. To be
    called before anything is removed, since the removed texts are compared.
    """
    rows = await session.fetch(SQL["former_dependents"], id=erasure_id, subject=subject, limit=limit)
    return [read_dependent(row) for row in rows], rows[0]["total"] if rows else 0


async def count_traces(
    session: TenantSession, *, entries: Sequence[UUID] = (), assets: Sequence[UUID] = ()
) -> dict[str, int]:
    """Rows of entries and assets, by table."""
    return await _count(session, SQL["traces"], entries=list(entries), assets=list(assets))


async def count_traces_of_subject(session: TenantSession, subject: str) -> dict[str, int]:
    """Rows of a subject, by table."""
    return await _count(session, SQL["traces_of_subject"], subject=subject)


async def delete_entries(session: TenantSession, ids: Sequence[UUID]) -> None:
    """Delete entries with all that belongs to them, and their former versions."""
    await session.execute(SQL["delete_deliveries"], ids=list(ids))
    await session.execute(SQL["delete_entries"], ids=list(ids))
    await erase_versions(session, ids)


async def delete_unused_words(session: TenantSession, lexemes: Sequence[str]) -> list[str]:
    """Delete the statistics of those words that fewer than two entries have, and return these."""
    return [row["lexeme"] for row in await session.fetch(SQL["delete_words"], lexemes=list(lexemes))]


async def delete_unused_tags(session: TenantSession, limit: int) -> list[str]:
    """Delete the statistics of up to `limit` tags that no entry has, and return these."""
    return [row["tag"] for row in await session.fetch(SQL["delete_tags"], limit=limit)]


async def has_word_statistics(session: TenantSession) -> bool:
    """Whether frequent words of the tenant are counted."""
    return bool(await session.fetch_value(SQL["has_words"]))


async def count_left_words(session: TenantSession, words: Words) -> dict[str, int]:
    """How many of these words, and of these tags without entries, have statistics, by table."""
    return await _count(session, SQL["left_words"], lexemes=list(words.lexemes), tags=list(words.tags))


async def strip_receipts(
    session: TenantSession, erasure_id: UUID, after: UUID, limit: int, filters: Sequence[str]
) -> VisitedReceipts:
    """Remove erased entries from the next receipts; the text and the `filters` of their searches are removed too."""
    found = await session.fetch_one_as(
        VisitedReceipts,
        SQL["strip_receipts"],
        id=erasure_id,
        after=after,
        limit=limit,
        filters=list(filters),
    )
    assert found is not None
    return found


async def look_at_receipts(session: TenantSession, erasure_id: UUID, after: UUID, limit: int) -> VisitedReceipts:
    """Count the next receipts that name an erased entry."""
    found = await session.fetch_one_as(
        VisitedReceipts, SQL["look_at_receipts"], id=erasure_id, after=after, limit=limit
    )
    assert found is not None
    return found


async def delete_of_subject(session: TenantSession, erasure_id: UUID, subject: str, limit: int) -> dict[str, int]:
    """Delete up to `limit` rows of each kind that belong to a subject; returns their numbers by table."""
    searches = await session.execute(SQL["delete_searches"], subject=subject, limit=limit)
    feedback = await session.execute(SQL["delete_feedback"], subject=subject, limit=limit)
    saved = await session.fetch_one_as(DeletedSavedSearches, SQL["delete_saved_searches"], subject=subject, limit=limit)
    assert saved is not None
    requests = await session.execute(SQL["rename_requester"], id=erasure_id, subject=subject)
    callers = await session.execute(SQL["delete_caller"], subject=subject)
    counts = {
        "callers": callers,
        "searches": searches,
        "feedback": feedback,
        "saved_searches": saved.saved_searches,
        "subscriptions": saved.subscriptions,
        "deliveries": saved.deliveries,
        "erasures": requests,
    }
    return {place: rows for place, rows in counts.items() if rows}


async def pseudonymise_actor(session: TenantSession, erasure_id: UUID, batch: int) -> int:
    """Replace the subject of an erasure in the audit trail, in up to `batch` rows; returns their number."""
    return int(await session.fetch_value(SQL["pseudonymise_actor"], id=erasure_id, batch=batch))


async def _count(session: TenantSession, statement: Statement, **parameters: Any) -> dict[str, int]:
    """Rows by place, without places that have none."""
    return {row["place"]: row["rows"] for row in await session.fetch(statement, **parameters)}
