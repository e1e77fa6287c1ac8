"""Erasures: their receipts and progress, and the ids of erased items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

import orjson

from app.contract.erasures import Dependent, ErasureKind, ErasureState
from app.db.rows import Place, Position
from app.db.session import Row, TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)

ItemKind = Literal["asset", "entry"]
Step = Literal["plan", "remove", "trail", "receipts", "look", "look_at_receipts"]

FIRST = UUID(int=0)
"""Before all ids."""

NAMING: Mapping[ItemKind, Sequence[str]] = {
    "asset": ("asset.upload", "asset.delete", "tenant.import"),
    "entry": ("entry.write", "entry.delete", "entry.purge", "tenant.import"),
}
"""The actions that name an asset or an entry which the tenant has or had."""


@dataclass(frozen=True, slots=True)
class KnownTarget:
    """Whether the tenant has or had the target, and the asset that an entry is a chunk of."""

    asset_id: UUID | None
    is_known: bool


@dataclass(slots=True)
class HeldErasure:
    """An erasure that this transaction works on.

    Attributes:
        place: searches up to this id were visited in this step.
        removed: rows removed or changed, by place.
        found: rows found by the current or the last look.
        derived: items named for decision, as JSON.
    """

    id: UUID
    kind: ErasureKind
    target: UUID | None
    subject: str | None
    state: ErasureState
    step: Step
    place: UUID
    removed: dict[str, int]
    found: dict[str, int]
    derived: list[Dependent]
    derived_total: int


@dataclass(frozen=True, slots=True)
class StoredErasure:
    """An erasure as its admin sees it."""

    id: UUID
    kind: ErasureKind
    target: UUID | None
    requested_by: str
    state: ErasureState
    removed: Mapping[str, int]
    found: Mapping[str, int]
    derived: Sequence[Dependent]
    derived_total: int
    created_at: datetime
    erased_at: datetime | None
    checked_at: datetime | None


def read_dependent(row: Row) -> Dependent:
    """The item of a row, which depends on an erased one; a former version of it has a number."""
    found: Dependent = {"relation": row["relation"], "kind": row["kind"], "id": str(row["id"])}
    return found if row.get("version") is None else {**found, "version": row["version"]}


async def create_erasure(
    session: TenantSession,
    erasure_id: UUID,
    kind: ErasureKind,
    target: UUID | None,
    subject: str | None,
    by: str,
) -> None:
    """Store a new erasure."""
    await session.execute(SQL["create"], id=erasure_id, kind=kind, target=target, subject=subject, requested_by=by)


async def find_target(session: TenantSession, kind: ItemKind, target: UUID) -> KnownTarget:
    """Whether an asset or entry is, or was, the tenant's."""
    found = await session.fetch_one_as(
        KnownTarget, SQL["find_target"], kind=kind, target=target, actions=list(NAMING[kind])
    )
    assert found is not None
    return found


async def hold_erasure(session: TenantSession, erasure_id: UUID) -> HeldErasure | None:
    """An erasure, locked until the transaction ends."""
    return await session.fetch_one_as(HeldErasure, SQL["hold"], id=erasure_id)


async def save_erasure(session: TenantSession, held: HeldErasure, *, looked: bool = False) -> None:
    """Store the progress of a held erasure; `looked`: everything was just looked for."""
    await session.execute(
        SQL["save"],
        id=held.id,
        state=held.state,
        step=held.step,
        place=held.place,
        removed=orjson.dumps(held.removed).decode(),
        found=orjson.dumps(held.found).decode(),
        derived=orjson.dumps(held.derived).decode(),
        derived_total=held.derived_total,
        looked=looked,
    )


async def fetch_erasures(session: TenantSession, ids: Sequence[UUID]) -> list[StoredErasure]:
    """Erasures, newest first."""
    return await session.fetch_as(StoredErasure, SQL["fetch"], ids=list(ids))


async def list_erasures(session: TenantSession, before: Position | None, limit: int) -> list[Place]:
    """Places in the list of erasures, newest first."""
    at, last_id = before or (None, None)
    return await session.fetch_as(Place, SQL["list"], before_at=at, before_id=last_id, limit=limit)


async def add_item(session: TenantSession, erasure_id: UUID, kind: ItemKind, item: UUID) -> None:
    """Add an asset or entry to an erasure."""
    await session.execute(SQL["add_item"], id=erasure_id, kind=kind, item=item)


async def add_chunks(session: TenantSession, erasure_id: UUID) -> int:
    """Add the chunks of an erasure's assets to it; returns how many were new."""
    return await session.execute(SQL["add_chunks"], id=erasure_id)


async def add_of_subject(session: TenantSession, erasure_id: UUID, subject: str) -> int:
    """Add the assets and entries that a subject created; returns their number."""
    return await session.execute(SQL["add_of_subject"], id=erasure_id, subject=subject)


async def find_changed(session: TenantSession, erasure_id: UUID, subject: str) -> list[Dependent]:
    """Assets and entries that a subject changed and others created."""
    rows = await session.fetch(SQL["changed_by_subject"], id=erasure_id, subject=subject)
    return [read_dependent(row) for row in rows]


async def take_items(session: TenantSession, erasure_id: UUID, kind: ItemKind, limit: int) -> list[UUID]:
    """Items that are still to be erased."""
    rows = await session.fetch(SQL["take_items"], id=erasure_id, kind=kind, limit=limit)
    return [row["item"] for row in rows]


async def list_items(session: TenantSession, erasure_id: UUID, kind: ItemKind, after: UUID, limit: int) -> list[UUID]:
    """Items in the order of their ids."""
    rows = await session.fetch(SQL["list_items"], id=erasure_id, kind=kind, after=after, limit=limit)
    return [row["item"] for row in rows]


async def mark_erased(session: TenantSession, erasure_id: UUID, ids: Sequence[UUID]) -> None:
    """Note that items are erased."""
    await session.execute(SQL["mark_erased"], id=erasure_id, ids=list(ids))


async def look_for_all(session: TenantSession, erasure_id: UUID) -> None:
    """Note that all items are to be erased again."""
    await session.execute(SQL["look_for_all"], id=erasure_id)


async def forget_items(session: TenantSession, erasure_id: UUID) -> None:
    """Remove the ids of an erasure."""
    await session.execute(SQL["forget_items"], id=erasure_id)
