"""The items that each source listed last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import orjson

from app.contract.sources import SourceItem
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


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
    """What an upload for an item depends on; its asset gets the readers, and the writers of the source."""

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
    return await session.fetch_as(
        SourceItem, SQL["list"], source=source, state=state, after=after, limit=limit
    )


async def pass_on_access(
    session: TenantSession, name: str, readers: Mapping[str, Sequence[str] | None]
) -> None:
    """Set the readers of items, by their ids, and give the assets of the source the readers of their items, otherwise
    those of the source, and its writers.
    """
    rows = [{"external_id": each, "readers": given} for each, given in readers.items()]
    await session.execute(SQL["set_item_readers"], source=name, rows=orjson.dumps(rows).decode())
    await session.execute(SQL["pass_on_access"], source=name)


async def fetch_stored(session: TenantSession, source: str) -> list[StoredItem]:
    """All items of a source, also those of assets that an interrupted import has left without one."""
    await session.execute(SQL["adopt"], source=source)
    return await session.fetch_as(StoredItem, SQL["stored"], source=source)


async def remove_items(session: TenantSession, source: str, external_ids: Sequence[str]) -> None:
    """Delete items that have no asset."""
    await session.execute(SQL["delete"], source=source, external_ids=list(external_ids))


async def change_items(session: TenantSession, source: str, changes: Sequence[ItemChange]) -> None:
    """Write the new values of stored items."""
    await session.execute(
        SQL["change"],
        source=source,
        old_ids=[c.old_id for c in changes],
        new_ids=[c.new_id for c in changes],
        digests=[c.digest for c in changes],
        names=[c.name for c in changes],
        again=[c.again for c in changes],
    )


async def add_items(session: TenantSession, source: str, items: Sequence[NewItem]) -> None:
    """Add items that the source did not have."""
    await session.execute(
        SQL["add"],
        source=source,
        external_ids=[i.external_id for i in items],
        digests=[i.digest for i in items],
        names=[i.name for i in items],
        problems=[i.problem for i in items],
    )


async def settle_items(session: TenantSession, source: str) -> None:
    """Settle the items whose assets have their content and are indexed or failed."""
    await session.execute(SQL["settle_items"], source=source)


async def settle_item(session: TenantSession, asset_id: UUID) -> None:
    """Settle the item of an asset whose ingestion ends in this transaction."""
    await session.execute(SQL["settle_item"], asset_id=asset_id)


async def fetch_item(session: TenantSession, source: str, external_id: str) -> WantedItem | None:
    """One item of the last manifest."""
    return await session.fetch_one_as(WantedItem, SQL["fetch"], source=source, external_id=external_id)


async def store_item(session: TenantSession, source: str, external_id: str, asset_id: UUID) -> None:
    """Record that an asset has the content of an item."""
    await session.execute(SQL["store"], source=source, external_id=external_id, asset_id=asset_id)


async def refuse_item(
    session: TenantSession, source: str, external_id: str, item: WantedItem, problem: str
) -> None:
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
