"""Records that grow by calls alone: how many a tenant has, and the removal of the oldest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.db.session import PlatformSession, TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)

BATCH = 20_000
"""Rows that one statement removes."""

Trimmed = Literal["receipts", "feedback", "deliveries"]


@dataclass(frozen=True, slots=True)
class RecordCount:
    """The number of a tenant's records of one kind, and about how many bytes they have without indexes."""

    name: str
    rows: int
    bytes: int


async def count_records(session: TenantSession) -> list[RecordCount]:
    """The records of each kind."""
    return await session.fetch_as(RecordCount, SQL["counts"])


async def drop_oldest(session: TenantSession, name: Trimmed, most: int) -> int:
    """Remove the oldest records over `most`, up to BATCH of them; returns their number."""
    return await session.execute(SQL[f"drop_{name}"], most=most, batch=BATCH)


async def prune_audit(session: TenantSession | PlatformSession, most: int) -> int:
    """Remove the oldest rows of the trail over `most`, up to BATCH of them; returns their number.

    The database keeps at least the newest million.
    """
    return int(await session.fetch_value(SQL["prune_audit"], most=most, batch=BATCH))
