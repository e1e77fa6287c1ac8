"""What has changed since a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.contract.receipts import RankedEntry
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class Trace:
    """What is there of an entry that a search ranked.

    Attributes:
        exists: whether there is still an entry with the id.
        unchanged: whether it is the version that was ranked.
        kept: whether this is among the entry's former versions.
    """

    id: UUID
    exists: bool
    unchanged: bool
    kept: bool


async def changed_settings(session: TenantSession, at: datetime) -> list[str]:
    """The names of settings that have changed since a time."""
    return [row["name"] for row in await session.fetch(SQL["changed_settings"], at=at)]


async def trace(session: TenantSession, ranked: Sequence[RankedEntry]) -> dict[UUID, Trace]:
    """What is there of these entries."""
    found = await session.fetch_as(
        Trace, SQL["traces"], ids=[e.id for e in ranked], times=[e.updated_at for e in ranked]
    )
    return {each.id: each for each in found}
