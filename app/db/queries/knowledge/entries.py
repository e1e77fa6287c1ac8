"""Entries, as stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from app.db.session import Row, TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


async def fetch_entries(session: TenantSession, ids: Sequence[UUID]) -> dict[UUID, Row]:
    """Entries by id; those that do not exist are left out."""
    rows = await session.fetch(SQL["fetch"], ids=list(ids))
    return {row["id"]: row for row in rows}


async def lock_entry(session: TenantSession, entry_id: UUID) -> Row | None:
    """The entry, kept from other writers until the transaction ends."""
    return await session.fetch_row(SQL["lock"], id=entry_id)


async def lock_entries(session: TenantSession, ids: Sequence[UUID]) -> dict[UUID, Row]:
    """Several entries, locked in one order so that two writers cannot block each other."""
    rows = await session.fetch(SQL["lock_many"], ids=list(ids))
    return {row["id"]: row for row in rows}


async def list_entries(
    session: TenantSession,
    *,
    before: tuple[datetime, UUID] | None,
    limit: int,
    entry_type: str | None,
    tag: str | None,
    asset_id: UUID | None,
    external_id: str | None,
    source: str | None = None,
) -> Sequence[Row]:
    """Ids and creation times of entries, newest first; `source` is entry (written) or asset (cut from one)."""
    at, last_id = before or (None, None)
    return await session.fetch(
        SQL["list"],
        before_at=at,
        before_id=last_id,
        limit=limit,
        entry_type=entry_type,
        tag=tag,
        asset_id=asset_id,
        external_id=external_id,
        source=source,
    )


async def find_same(session: TenantSession, keys: Sequence[tuple[str | None, bytes]]) -> dict[int, UUID]:
    """For each (external_id, content hash): the entry that it repeats, by position."""
    rows = await session.fetch(
        SQL["find_same"],
        external_ids=[external_id for external_id, _ in keys],
        content_hashes=[content_hash for _, content_hash in keys],
    )
    return {row["place"] - 1: row["id"] for row in rows}


async def find_missing(session: TenantSession, ids: Sequence[UUID]) -> set[UUID]:
    """Which of these ids no entry of the tenant has."""
    rows = await session.fetch(SQL["missing"], ids=list(ids))
    return {row["id"] for row in rows}


async def insert_entries(session: TenantSession, rows: Sequence[Mapping[str, Any]]) -> set[UUID]:
    """Add entries; returns the ids that were added. One that repeats another writer's new entry is left out."""
    added = await session.fetch(SQL["insert"], rows=orjson.dumps(list(rows)).decode())
    return {row["id"] for row in added}


async def update_entries(session: TenantSession, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the full state of existing entries. Raises asyncpg.UniqueViolationError."""
    await session.execute(SQL["update"], rows=orjson.dumps(list(rows)).decode())


async def delete_entry(session: TenantSession, entry_id: UUID) -> bool:
    """Remove one entry; False when there is none."""
    return await session.execute(SQL["delete"], id=entry_id) > 0


async def purge_expired(session: TenantSession, limit: int) -> Sequence[UUID]:
    """Remove up to `limit` entries that expired as long ago as the tenant has set; returns their ids."""
    rows = await session.fetch(SQL["purge_expired"], limit=limit)
    return [row["id"] for row in rows]


async def related_entries(session: TenantSession, entry_id: UUID, limit: int) -> Sequence[Row]:
    """Rows of id, relationship and overlap_count, nearest relation first."""
    return await session.fetch(SQL["related"], id=entry_id, limit=limit)
