"""Entries in quarantine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from app.db.rows import Place, Position
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)

SuspiciousContent = Literal["keep", "flag", "quarantine"]
"""What a tenant does with suspicious content: nothing, mark it, or mark it and hide it from searches."""


async def fetch_policy(session: TenantSession) -> SuspiciousContent:
    """What the tenant does with suspicious content."""
    policy: SuspiciousContent = await session.fetch_value(SQL["policy"])
    return policy


async def apply_quarantine(session: TenantSession, ids: Sequence[UUID], *, quarantines: bool) -> None:
    """Quarantine the flagged entries among these, if the tenant quarantines, and end the quarantine of the others."""
    await session.execute(SQL["apply"], ids=list(ids), quarantines=quarantines)


async def add_flags(
    session: TenantSession, asset_id: UUID, flags: Sequence[str], known: Sequence[str]
) -> list[UUID]:
    """Add flags to the chunks of an asset, in the order of `known`; returns the chunks that lacked one."""
    rows = await session.fetch(SQL["add_flags"], asset_id=asset_id, flags=list(flags), known=list(known))
    return [row["id"] for row in rows]


async def count_flags(session: TenantSession, asset_id: UUID) -> None:
    """Count the flags of an asset's chunks in the asset."""
    await session.execute(SQL["count_flags"], asset_id=asset_id)


async def list_quarantined(
    session: TenantSession, after: Position | None, limit: int, asset_id: UUID | None
) -> list[Place]:
    """A page of the quarantined entries, newest first."""
    key, last_id = after or (None, None)
    return await session.fetch_as(
        Place, SQL["list"], after_key=key, after_id=last_id, limit=limit, asset_id=asset_id
    )


async def release(session: TenantSession, ids: Sequence[UUID], asset_ids: Sequence[UUID]) -> list[UUID]:
    """End the quarantine of entries and of assets' chunks, and of others with the same texts; returns the entries."""
    rows = await session.fetch(SQL["choose"], ids=list(ids), asset_ids=list(asset_ids))
    chosen = [row["id"] for row in rows]
    if chosen:
        await session.execute(SQL["note_release"], ids=chosen)
        await session.execute(SQL["release"], ids=chosen)
    return chosen
