"""Change an asset's fields; its chunks inherit them in the same transaction."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from uuid import UUID

import asyncpg

from app.contract.assets import CHANGEABLE, AssetFields
from app.db.queries import assets as db
from app.db.queries import embeddings as vectors
from app.db.queries.assets import ChunkChange, LockedAsset, change_chunks
from app.db.session import TenantSession
from app.errors import (
    AssetExists,
    AssetNotFound,
    ConcurrentWrites,
    InvalidInput,
    NotAWriter,
    PreconditionFailed,
)
from app.knowledge.entries.entry import PLACE, inheritable
from app.knowledge.quarantine.flagging import flag_chunks, screen_fields
from app.knowledge.queue import JobQueue
from app.knowledge.tenants.quotas import Room


def merge(fields: AssetFields, stored: LockedAsset) -> LockedAsset:
    """Overwrite the stored fields with the given ones.

    Raises InvalidInput for other readers and writers of an asset of a source, which determines them.
    """
    given = fields.given()
    for name in ("readers", "writers"):
        if stored.source is not None and name in given and given[name] != getattr(stored, name):
            raise InvalidInput.of(name, f"are those of the asset's source, {stored.source}: change them there")
    return replace(stored, **given)


def require_version(stored: LockedAsset, versions: Collection[int] | None) -> None:
    """Raise PreconditionFailed unless the asset has one of these versions; None allows any."""
    if versions is not None and stored.version not in versions:
        raise PreconditionFailed("the asset has changed since it was read")


async def refuse_reader(session: TenantSession, asset_id: UUID) -> None:
    """Raise NotAWriter for an asset that the caller may read, and not change."""
    if asset_id in await db.fetch_assets(session, [asset_id]):
        raise NotAWriter("the asset has writers, and you are not one of them")


async def find_missing(session: TenantSession, asset_id: UUID) -> AssetNotFound:
    """The error for an asset that cannot be changed. Raises NotAWriter if the caller may read it."""
    await refuse_reader(session, asset_id)
    return AssetNotFound("there is no asset with this id")


async def refuse_twin(session: TenantSession, wanted: LockedAsset) -> None:
    """Raise AssetExists if another asset with the wanted readers has the same identity."""
    if (twin := await db.find_twin(session, wanted.id, wanted.readers)) is not None:
        raise AssetExists(f"another asset with these readers has the same identity: {twin}", twin)


async def write_change(
    session: TenantSession, jobs: JobQueue, stored: LockedAsset, wanted: LockedAsset, room: Room | None
) -> list[str]:
    """Write the changed fields of a locked asset and of its chunks; return the names of the fields.

    Chunks with another title are embedded again in the background. What is suspicious in the fields flags all chunks; a
    flag stays until the asset is ingested again. Raises AssetExists, and RateLimited when longer titles
    exceed the tenant's room.
    """
    changed = [n for n in ("name", *CHANGEABLE) if getattr(stored, n) != getattr(wanted, n)]
    if not changed:
        return []
    if "readers" in changed:
        await refuse_twin(session, wanted)
    try:
        await db.change_asset(session, wanted)
    except asyncpg.UniqueViolationError as error:
        raise ConcurrentWrites("another request has just stored an asset with the same identity") from error
    titles = (stored.shown_title, wanted.shown_title)
    change = ChunkChange(
        tags=wanted.tags if "tags" in changed else None,
        roles=wanted.roles if "roles" in changed else None,
        metadata=inheritable(wanted.metadata) if "metadata" in changed else None,
        place=sorted(PLACE),
        titles=titles if titles[0] != titles[1] else None,
    )
    if change == ChunkChange(place=change.place):
        return changed
    touched = await change_chunks(session, stored.id, change)
    flags = screen_fields(wanted.title, wanted.name, wanted.tags, wanted.metadata)
    await flag_chunks(session, stored.id, flags)
    if touched:
        growth = 2 * len(touched) * (len(titles[1] or "") - len(titles[0] or ""))
        if room is not None and (over := room.take_bytes(max(0, growth))) is not None:
            raise over
        await vectors.drop_vectors(session, touched)
        await vectors.mark_pending(session, touched)
        await jobs.enqueue(session, "embed_entries", "entries")
    return changed
