"""What lies around an entry and in an asset, for people who look at it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from app.db.session import Row, TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


async def fetch_vectors(session: TenantSession, entry_id: UUID) -> Sequence[Row]:
    """Models of which the entry has vectors or waits for them, the tenant's own first; no vector itself."""
    return await session.fetch(SQL["vectors"], id=entry_id)


async def fetch_connections(session: TenantSession, entry_id: UUID, limit: int) -> Sequence[Row]:
    """Entries that the entry names or is named by, each with `relation` and an excerpt."""
    return await session.fetch(SQL["connections"], id=entry_id, limit=limit)


async def count_accesses(session: TenantSession, entry_id: UUID) -> int:
    """How often searches have returned the entry."""
    return int(await session.fetch_value(SQL["accesses"], id=entry_id) or 0)


async def fetch_text_part(session: TenantSession, asset_id: UUID, start: int, size: int) -> Row | None:
    """`part` of an asset's text and the length of the whole, both null until there is one; None without the asset."""
    return await session.fetch_row(SQL["text_part"], id=asset_id, start=start, size=size)


async def find_chunk(session: TenantSession, asset_id: UUID, index: int) -> int:
    """The first character of an asset's chunk, as its metadata say; 0 where they do not."""
    if not 0 <= index < 2**31:
        return 0
    start = await session.fetch_value(SQL["chunk_start"], id=asset_id, index=index)
    return int(start or 0)


async def list_chunks(session: TenantSession, asset_id: UUID, start: int, end: int) -> Sequence[Row]:
    """Chunks of an asset that reach into this part of its text, in their order."""
    return await session.fetch(SQL["chunks"], id=asset_id, start=start, end=end)
