"""Stored entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

import orjson

from app.contract.entries import Entry, WrittenEntry
from app.contract.vocabulary import Relationship
from app.db.rows import Place, Position
from app.db.session import TenantSession
from app.db.statements import Order, load_statements

SQL = load_statements(__name__)


class EntryKey(NamedTuple):
    """What identifies an entry among those with the same readers, or with any if they are not `given`."""

    external_id: str | None
    content_hash: bytes
    readers: tuple[str, ...] | None = None
    given: bool = False


@dataclass(frozen=True, slots=True)
class LockedEntry(WrittenEntry):
    """A locked entry."""

    version: int
    quarantined: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """How an entry is related to another; `overlap_count` is the number of shared tags, for `tag_overlap`.

    `total` is the number of all related entries.
    """

    id: UUID
    relationship: Relationship
    overlap_count: int | None
    total: int


async def fetch_entries(session: TenantSession, ids: Sequence[UUID]) -> dict[UUID, Entry]:
    """Entries by id; ids that do not exist are omitted."""
    return {entry.id: entry for entry in await session.fetch_as(Entry, SQL["fetch"], ids=list(ids))}


async def lock_entries(session: TenantSession, ids: Sequence[UUID]) -> dict[UUID, LockedEntry]:
    """Entries by id, locked until the transaction ends, in one order so that two writers cannot block each other."""
    return {entry.id: entry for entry in await session.fetch_as(LockedEntry, SQL["lock"], ids=list(ids))}


async def list_entries(
    session: TenantSession,
    *,
    order: Order,
    after: Position | None,
    limit: int,
    entry_type: str | None,
    tag: str | None,
    asset_id: UUID | None,
    external_id: str | None,
    source: str | None = None,
    include_expired: bool = False,
    include_quarantined: bool = False,
) -> list[Place]:
    """A page of the list of entries; `source` is `entry` (written) or `asset` (a chunk)."""
    key, last_id = after or (None, None)
    return await session.fetch_as(
        Place,
        SQL["list"].ordered(order),
        after_key=key,
        after_id=last_id,
        limit=limit,
        entry_type=entry_type,
        tag=tag,
        asset_id=asset_id,
        external_id=external_id,
        source=source,
        include_expired=include_expired,
        include_quarantined=include_quarantined,
    )


async def find_same(session: TenantSession, keys: Sequence[EntryKey]) -> dict[int, UUID]:
    """For each key: the existing entry that it duplicates, by position."""
    rows = await session.fetch(
        SQL["find_same"],
        external_ids=[key.external_id for key in keys],
        content_hashes=[key.content_hash for key in keys],
        readers=[None if key.readers is None else orjson.dumps(key.readers).decode() for key in keys],
        given=[key.given for key in keys],
    )
    return {row["place"] - 1: row["id"] for row in rows}


async def find_twin(session: TenantSession, entry_id: UUID, readers: Sequence[str] | None) -> UUID | None:
    """The other entry with these readers and the same external_id or, without one, the same content."""
    found: UUID | None = await session.fetch_value(
        SQL["find_twin"], id=entry_id, readers=None if readers is None else list(readers)
    )
    return found


async def find_readers(session: TenantSession, ids: Sequence[UUID]) -> dict[UUID, Sequence[str] | None]:
    """The readers of those of the entries that exist for the caller."""
    rows = await session.fetch(SQL["readers"], ids=list(ids))
    return {row["id"]: row["readers"] for row in rows}


async def lock_successions(session: TenantSession) -> None:
    """Make other transactions of the tenant that supersede entries wait; call it before any entry is locked."""
    await session.fetch(SQL["lock_successions"])


async def find_successor(session: TenantSession, entry_id: UUID) -> UUID | None:
    """The entry that supersedes this one."""
    found: UUID | None = await session.fetch_value(SQL["successor"], id=entry_id)
    return found


async def insert_entries(session: TenantSession, entries: Sequence[WrittenEntry]) -> set[UUID]:
    """Insert entries; returns the inserted ids. Duplicates of another writer's new entry are skipped."""
    added = await session.fetch(SQL["insert"], rows=orjson.dumps(list(entries)).decode())
    return {row["id"] for row in added}


async def update_entries(session: TenantSession, entries: Sequence[WrittenEntry]) -> None:
    """Write the full state of existing entries. Raises asyncpg.UniqueViolationError."""
    await session.execute(SQL["update"], rows=orjson.dumps(list(entries)).decode())


async def delete_entry(session: TenantSession, entry_id: UUID) -> bool:
    """Remove one entry; False when there is none."""
    return await session.execute(SQL["delete"], id=entry_id) > 0


async def purge_expired(session: TenantSession, limit: int) -> Sequence[UUID]:
    """Remove up to `limit` entries that expired longer ago than the tenant's setting; returns their ids."""
    rows = await session.fetch(SQL["purge_expired"], limit=limit)
    return [row["id"] for row in rows]


async def related_entries(session: TenantSession, entry_id: UUID, limit: int, most: int) -> list[Relation]:
    """Related entries, the nearest relation first; at most `most` of each kind are counted."""
    return await session.fetch_as(Relation, SQL["related"], id=entry_id, limit=limit, most=most)
