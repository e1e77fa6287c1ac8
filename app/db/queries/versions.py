"""Former versions of entries. Triggers write them: see `alembic/sql/versions.sql`."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from app.contract.entries import FormerVersion
from app.db.rows import Position, beyond, split_rows
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)

BATCH = 2_000
"""Versions that one statement removes."""


async def keep(session: TenantSession, former: int, days: int) -> None:
    """Note that the tenant keeps versions for `days` from now on, instead of `former`; 0 is none."""
    await session.execute(SQL["keep"], former=former, days=days)


async def find_earliest(session: TenantSession) -> datetime | None:
    """The earliest time for which all versions are kept; None if the tenant keeps none."""
    return await session.fetch_value_as(datetime, SQL["earliest"])


async def list_versions(
    session: TenantSession,
    after: Position | None,
    limit: int,
    most_bytes: int,
    entry_id: UUID | None,
    asset_id: UUID | None,
    *,
    include_quarantined: bool,
) -> tuple[list[FormerVersion], bool]:
    """The versions of an entry, or of the chunks of an asset, newest first, and whether there are more."""
    rows = await session.fetch(
        SQL["list"],
        id=entry_id,
        asset_id=asset_id,
        **beyond(after),
        limit=limit,
        most_bytes=most_bytes,
        include_quarantined=include_quarantined,
    )
    return [version for version, _ in split_rows(FormerVersion, rows)], bool(rows) and len(rows) < rows[0]["found"]


async def is_known(session: TenantSession, entry_id: UUID | None, asset_id: UUID | None) -> bool:
    """Whether the entry or asset exists, or a former version of it or of one of its chunks."""
    return bool(await session.fetch_value(SQL["is_known"], id=entry_id, asset_id=asset_id))


async def prune(session: TenantSession, most: int) -> int:
    """Remove versions older than the tenant's period, and the oldest over `most`, up to BATCH; return their number."""
    return int(await session.fetch_value(SQL["prune"], most=most, batch=BATCH))


async def erase_versions(
    session: TenantSession, ids: Sequence[UUID], asset_ids: Sequence[UUID] = ()
) -> dict[UUID, int]:
    """Remove all former versions of these entries, and of the chunks of these assets; return their number by entry.

    Call this after the entries and assets are deleted: their deletion keeps a last version.
    """
    return await session.fetch_pairs(SQL["erase"], ids=list(ids), asset_ids=list(asset_ids))
