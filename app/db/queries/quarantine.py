"""Entries in quarantine."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from app.contract.vocabulary import SuspiciousContent
from app.db.rows import Place, Position, beyond
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


async def fetch_policy(session: TenantSession) -> SuspiciousContent:
    """The tenant's policy for suspicious content."""
    policy: SuspiciousContent = await session.fetch_value(SQL["policy"])
    return policy


@dataclass(frozen=True, slots=True)
class ScreenedEntry:
    """The screened fields of an entry; `asset_name` is None unless it is a chunk, and for a former version."""

    id: UUID
    asset_name: str | None
    title: str | None
    content: str
    tags: Sequence[str]
    metadata: Mapping[str, Any]


async def judge(session: TenantSession, ids: Sequence[UUID], released: Sequence[UUID], *, quarantines: bool) -> None:
    """Quarantine the flagged entries among these that are not released, if the tenant quarantines, and end the
    quarantine of the others.
    """
    await session.execute(SQL["judge"], ids=list(ids), released=list(released), quarantines=quarantines)


async def has_releases(session: TenantSession) -> bool:
    """Whether anything was ever released."""
    return bool(await session.fetch_value(SQL["has_releases"]))


async def fetch_screened(session: TenantSession, ids: Sequence[UUID]) -> list[ScreenedEntry]:
    """The screened fields of those of these entries that have flags."""
    return await session.fetch_as(ScreenedEntry, SQL["screened"], ids=list(ids))


async def fetch_written(session: TenantSession, ids: Sequence[UUID]) -> list[ScreenedEntry]:
    """The fields of these entries and of their former versions."""
    return await session.fetch_as(ScreenedEntry, SQL["written"], ids=list(ids))


async def fetch_released(session: TenantSession, hashes: Sequence[bytes]) -> dict[bytes, set[str]]:
    """The flags for which fields are released, by the hashes of the fields."""
    rows = await session.fetch(SQL["released"], hashes=list(hashes))
    return {row["text_hash"]: set(row["flags"]) for row in rows}


async def note_releases(session: TenantSession, fields: Mapping[bytes, Collection[str]]) -> None:
    """Release fields, by their hashes, for these flags and for those for which they were released before."""
    flags = [orjson.dumps(sorted(flags)).decode() for flags in fields.values()]
    await session.execute(SQL["note_releases"], hashes=list(fields), flags=flags)


async def forget_releases(session: TenantSession, hashes: Sequence[bytes]) -> int:
    """Remove the releases of fields; returns their number."""
    return await session.execute(SQL["forget_releases"], hashes=list(hashes))


async def add_flags(session: TenantSession, asset_id: UUID, flags: Sequence[str], known: Sequence[str]) -> list[UUID]:
    """Add flags to the chunks of an asset, in the order of `known`; returns all its chunks that have flags."""
    await session.execute(SQL["add_flags"], asset_id=asset_id, flags=list(flags), known=list(known))
    return await session.fetch_column(SQL["flagged_chunks"], asset_id=asset_id)


async def fetch_chunks_with(session: TenantSession, asset_id: UUID, flags: Sequence[str]) -> Sequence[ScreenedEntry]:
    """The chunks of an asset with one of these flags."""
    return await session.fetch_as(ScreenedEntry, SQL["chunks_with"], asset_id=asset_id, flags=list(flags))


async def set_flags(session: TenantSession, flags: Mapping[UUID, Sequence[str]]) -> None:
    """Give entries these flags and no others."""
    given = [orjson.dumps(list(each)).decode() for each in flags.values()]
    await session.execute(SQL["set_flags"], ids=list(flags), flags=given)


async def count_flags(session: TenantSession, asset_id: UUID) -> None:
    """Count the flags of an asset's chunks in the asset."""
    await session.execute(SQL["count_flags"], asset_id=asset_id)


async def is_held(session: TenantSession, asset_id: UUID) -> bool:
    """Whether an asset has a quarantined chunk."""
    return bool(await session.fetch_value(SQL["is_held"], asset_id=asset_id))


async def list_quarantined(
    session: TenantSession, after: Position | None, limit: int, asset_id: UUID | None
) -> list[Place]:
    """A page of the quarantined entries, newest first."""
    return await session.fetch_as(Place, SQL["list"], limit=limit, asset_id=asset_id, **beyond(after))


async def choose(
    session: TenantSession, ids: Sequence[UUID], asset_ids: Sequence[UUID]
) -> tuple[list[UUID], list[UUID]]:
    """Lock the quarantined entries among these and of these assets, and others with the same contents."""
    rows = await session.fetch(SQL["choose"], ids=list(ids), asset_ids=list(asset_ids))
    return [row["id"] for row in rows if row["named"]], [row["id"] for row in rows if not row["named"]]


async def release(session: TenantSession, ids: Sequence[UUID]) -> None:
    """End the quarantine of entries."""
    await session.execute(SQL["release"], ids=list(ids))
