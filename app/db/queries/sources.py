"""Sources, and the items of their last manifest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import orjson

from app.contract.sources import Source, SourceItem, SourceStatus
from app.db.rows import columns_of
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class HeldManifest:
    """A manifest of a source that changed nothing, since it would have deleted too many of its `assets`."""

    name: str
    at: datetime
    actor: str
    deletions: int
    assets: int


@dataclass(frozen=True, slots=True)
class LockedSource:
    """A source locked against other manifests."""

    run: int
    readers: Sequence[str] | None
    writers: Sequence[str] | None


async def fetch_source(session: TenantSession, name: str) -> SourceStatus | None:
    """One source with the states of its items."""
    return await session.fetch_one_as(SourceStatus, SQL["fetch"], name=name)


async def list_held(session: TenantSession, age: timedelta) -> list[HeldManifest]:
    """The last manifests of sources that wait for a confirmation of their deletions, not older than `age`."""
    return await session.fetch_as(HeldManifest, SQL["held"], age=age)


async def list_sources(session: TenantSession, after: str | None, limit: int) -> list[Source]:
    """Sources in the order of their names."""
    return await session.fetch_as(Source, SQL["list"], after=after, limit=limit)


async def count_sources(session: TenantSession) -> int:
    """The number of the tenant's sources."""
    return int(await session.fetch_value(SQL["count"]))


async def add_source(
    session: TenantSession, name: str, listed_at: datetime, readers: Sequence[str] | None, writers: Sequence[str] | None
) -> bool:
    """Add a source without items; False if it exists."""
    added = await session.execute(SQL["add"], name=name, listed_at=listed_at, readers=readers, writers=writers)
    return added > 0


async def lock_source(session: TenantSession, name: str) -> LockedSource | None:
    """Lock a source against other manifests and uploads; None if there is none that the caller may write."""
    return await session.fetch_one_as(LockedSource, SQL["lock"], name=name)


async def set_access(
    session: TenantSession, name: str, readers: Sequence[str] | None, writers: Sequence[str] | None
) -> None:
    """Set the readers and writers of a source."""
    await session.execute(SQL["set_access"], name=name, readers=readers, writers=writers)


async def share_source(session: TenantSession, name: str) -> int | None:
    """Lock a source against manifests; returns its run, None if there is none that the caller may write."""
    return await session.fetch_value_as(int, SQL["lock_shared"], name=name)


async def remove_assets(session: TenantSession, ids: Sequence[UUID]) -> None:
    """Delete assets with their chunks, jobs and items.

    They can be too many to hold each as `hold_subject` of jobs does. So a retry or an import that has locked an asset
    can queue a job until the asset is deleted: the jobs are removed again after that.
    """
    await cancel_ingestions(session, ids)
    await session.execute(SQL["delete_assets"], ids=list(ids))
    await cancel_ingestions(session, ids)


async def cancel_ingestions(session: TenantSession, ids: Sequence[UUID]) -> None:
    """Remove the jobs that ingest these assets, queued or running."""
    await session.execute(SQL["cancel_jobs"], subjects=[str(i) for i in ids])


class Renamed(NamedTuple):
    """An asset that gets another external id or name."""

    id: UUID
    new_id: str
    name: str


async def rename_assets(session: TenantSession, names: Sequence[Renamed]) -> None:
    """Give assets other external ids and names."""
    await session.execute(SQL["rename_assets"], **columns_of(Renamed, names))


async def accept_manifest(
    session: TenantSession, name: str, *, items: int, listed_at: datetime, origin: str | None
) -> int:
    """Count a manifest as accepted; returns its number."""
    run: int = await session.fetch_value(SQL["accept"], name=name, items=items, listed_at=listed_at, origin=origin)
    return run


async def agree(session: TenantSession, name: str) -> bool:
    """Record that the assets have the content of the last manifest, if every item is settled; locks the source."""
    if await lock_source(session, name) is None:
        return False
    return await session.execute(SQL["agree"], name=name) > 0


async def list_some_assets(session: TenantSession, source: str, limit: int) -> list[UUID]:
    """The first assets of a source by id."""
    return await session.fetch_column(SQL["some_assets"], source=source, limit=limit)


async def list_taken_ids(session: TenantSession, source: str, limit: int) -> list[str]:
    """External ids of the source's assets that assets without a source have, too."""
    return await session.fetch_column(SQL["taken_ids"], source=source, limit=limit)


async def release_assets(session: TenantSession, source: str) -> int:
    """Make the assets of a source assets without one; returns their number."""
    return await session.execute(SQL["release_assets"], source=source)


async def delete_source(session: TenantSession, name: str) -> bool:
    """Delete a source and its items; False if there is none."""
    return await session.execute(SQL["delete"], name=name) > 0


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item as the last manifest left it; `failed`: its asset could not be ingested."""

    external_id: str
    digest: str
    name: str
    asset_id: UUID | None
    stored_digest: str | None
    problem: str | None
    failed: bool


@dataclass(frozen=True, slots=True)
class ItemChange:
    """New values of a stored item; `again`: its bytes are needed even if the asset has the digest."""

    old_id: str
    new_id: str
    digest: str
    name: str
    again: bool


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item to add; with a `problem` it is refused."""

    external_id: str
    digest: str
    name: str
    problem: str | None


@dataclass(frozen=True, slots=True)
class WantedItem:
    """The inputs of an upload for an item; its asset gets the readers, and the writers of the source."""

    digest: str
    name: str
    asset_id: UUID | None
    stored_digest: str | None
    readers: Sequence[str] | None
    writers: Sequence[str] | None


async def list_items(
    session: TenantSession, source: str, *, state: str | None, after: str | None, limit: int
) -> list[SourceItem]:
    """Items in the order of their ids."""
    return await session.fetch_as(SourceItem, SQL["list_items"], source=source, state=state, after=after, limit=limit)


async def pass_on_access(session: TenantSession, name: str, readers: Mapping[str, Sequence[str] | None]) -> None:
    """Set the readers of items, by their ids, and give the assets of the source the readers of their items, otherwise
    those of the source, and its writers.
    """
    rows = [{"external_id": each, "readers": given} for each, given in readers.items()]
    await session.execute(SQL["set_item_readers"], source=name, rows=orjson.dumps(rows).decode())
    await session.execute(SQL["pass_on_access"], source=name)


async def fetch_stored(session: TenantSession, source: str) -> list[StoredItem]:
    """All items of a source, including those without an asset after an interrupted import."""
    await session.execute(SQL["adopt"], source=source)
    return await session.fetch_as(StoredItem, SQL["stored"], source=source)


async def remove_items(session: TenantSession, source: str, external_ids: Sequence[str]) -> None:
    """Delete items that have no asset."""
    await session.execute(SQL["delete_item"], source=source, external_ids=list(external_ids))


async def change_items(session: TenantSession, source: str, changes: Sequence[ItemChange]) -> None:
    """Write the new values of stored items."""
    await session.execute(SQL["change"], source=source, **columns_of(ItemChange, changes))


async def add_items(session: TenantSession, source: str, items: Sequence[NewItem]) -> None:
    """Add items that the source did not have."""
    await session.execute(SQL["add_item"], source=source, **columns_of(NewItem, items))


async def settle_items(session: TenantSession, source: str) -> None:
    """Settle the items whose assets have their content and are indexed or failed."""
    await session.execute(SQL["settle_items"], source=source)


async def settle_item(session: TenantSession, asset_id: UUID) -> None:
    """Settle the item of an asset whose ingestion ends in this transaction."""
    await session.execute(SQL["settle_item"], asset_id=asset_id)


async def fetch_item(session: TenantSession, source: str, external_id: str) -> WantedItem | None:
    """One item of the last manifest."""
    return await session.fetch_one_as(WantedItem, SQL["fetch_item"], source=source, external_id=external_id)


async def store_item(session: TenantSession, source: str, external_id: str, asset_id: UUID) -> None:
    """Record that an asset has the content of an item."""
    await session.execute(SQL["store"], source=source, external_id=external_id, asset_id=asset_id)


async def refuse_item(session: TenantSession, source: str, external_id: str, item: WantedItem, problem: str) -> None:
    """Record why an item has no asset."""
    await session.execute(
        SQL["refuse"],
        source=source,
        external_id=external_id,
        digest=item.digest,
        name=item.name,
        problem=problem,
        readers=item.readers,
    )
