"""Erasures: their receipts and progress, the ids of erased items, and the rows that they remove."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import orjson

from app.contract.erasures import Dependent, ErasureKind, ErasureState
from app.db.queries.receipts import RANKED
from app.db.queries.versions import erase_versions
from app.db.rows import Place, Position, beyond
from app.db.session import Row, TenantSession
from app.db.statements import Statement, load_statements

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
    session: TenantSession, erasure_id: UUID, kind: ErasureKind, target: UUID | None, subject: str | None, by: str
) -> None:
    """Store a new erasure."""
    await session.execute(SQL["create"], id=erasure_id, kind=kind, target=target, subject=subject, requested_by=by)


async def find_target(session: TenantSession, kind: ItemKind, target: UUID) -> KnownTarget:
    """Whether an asset or entry is, or was, the tenant's."""
    return await session.fetch_only_as(
        KnownTarget, SQL["find_target"], kind=kind, target=target, actions=list(NAMING[kind])
    )


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
    return await session.fetch_as(Place, SQL["list"], limit=limit, **beyond(before))


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
    return await session.fetch_column(SQL["take_items"], id=erasure_id, kind=kind, limit=limit)


async def list_items(session: TenantSession, erasure_id: UUID, kind: ItemKind, after: UUID, limit: int) -> list[UUID]:
    """Items in the order of their ids."""
    return await session.fetch_column(SQL["list_items"], id=erasure_id, kind=kind, after=after, limit=limit)


async def mark_erased(session: TenantSession, erasure_id: UUID, ids: Sequence[UUID]) -> None:
    """Note that items are erased."""
    await session.execute(SQL["mark_erased"], id=erasure_id, ids=list(ids))


async def look_for_all(session: TenantSession, erasure_id: UUID) -> None:
    """Note that all items are to be erased again."""
    await session.execute(SQL["look_for_all"], id=erasure_id)


async def forget_items(session: TenantSession, erasure_id: UUID) -> None:
    """Remove the ids of an erasure."""
    await session.execute(SQL["forget_items"], id=erasure_id)


@dataclass(frozen=True, slots=True)
class Words:
    """Words and tags whose statistics were deleted."""

    lexemes: Sequence[str]
    tags: Sequence[str]


@dataclass(frozen=True, slots=True)
class VisitedReceipts:
    """The last of the visited searches, None if there was none, and how many of them named an erased entry."""

    last: UUID | None
    rows: int


async def find_words(session: TenantSession, ids: Sequence[UUID]) -> list[str]:
    """The words of entries."""
    return list(await session.fetch_value(SQL["words"], ids=list(ids)))


async def find_dependents(
    session: TenantSession, erasure_id: UUID, *, entries: Sequence[UUID] = (), asset_id: UUID | None = None
) -> list[Dependent]:
    """Items that depend on these entries or on this asset, or have the same content."""
    if asset_id is not None:
        rows = await session.fetch(SQL["dependents_of_asset"], id=erasure_id, asset_id=asset_id)
    else:
        rows = await session.fetch(SQL["dependents"], id=erasure_id, ids=list(entries))
    return [read_dependent(row) for row in rows]


async def find_former_dependents(
    session: TenantSession, erasure_id: UUID, subject: str | None, limit: int
) -> tuple[list[Dependent], int]:
    """Former versions of items that are not erased: copies, derived ones, and what the subject may have written.

    Those of the chunks of an asset have no number. Returns at most `limit`, and the number of all. To be
    called before anything is removed, since the removed texts are compared.
    """
    rows = await session.fetch(SQL["former_dependents"], id=erasure_id, subject=subject, limit=limit)
    return [read_dependent(row) for row in rows], rows[0]["total"] if rows else 0


async def count_traces(
    session: TenantSession, *, entries: Sequence[UUID] = (), assets: Sequence[UUID] = ()
) -> dict[str, int]:
    """Rows of entries and assets, by table."""
    return await _count(session, SQL["traces"], entries=list(entries), assets=list(assets))


async def count_traces_of_subject(session: TenantSession, subject: str) -> dict[str, int]:
    """Rows of a subject, by table."""
    return await _count(session, SQL["traces_of_subject"], subject=subject)


async def delete_entries(session: TenantSession, ids: Sequence[UUID]) -> None:
    """Delete entries with all that belongs to them, and their former versions."""
    await session.execute(SQL["delete_deliveries"], ids=list(ids))
    await session.execute(SQL["delete_entries"], ids=list(ids))
    await erase_versions(session, ids)


async def delete_unused_words(session: TenantSession, lexemes: Sequence[str]) -> list[str]:
    """Delete the statistics of those words that fewer than two entries have, and return these."""
    return await session.fetch_column(SQL["delete_words"], lexemes=list(lexemes))


async def delete_unused_tags(session: TenantSession, limit: int) -> list[str]:
    """Delete the statistics of up to `limit` tags that no entry has, and return these."""
    return await session.fetch_column(SQL["delete_tags"], limit=limit)


async def has_word_statistics(session: TenantSession) -> bool:
    """Whether frequent words of the tenant are counted."""
    return bool(await session.fetch_value(SQL["has_words"]))


async def count_left_words(session: TenantSession, words: Words) -> dict[str, int]:
    """How many of these words, and of these tags without entries, have statistics, by table."""
    return await _count(session, SQL["left_words"], lexemes=list(words.lexemes), tags=list(words.tags))


async def strip_receipts(
    session: TenantSession, erasure_id: UUID, after: UUID, limit: int, filters: Sequence[str]
) -> VisitedReceipts:
    """Remove erased entries from the next receipts; the text and the `filters` of their searches are removed too."""
    return await session.fetch_only_as(
        VisitedReceipts,
        SQL["strip_receipts"],
        id=erasure_id,
        after=after,
        limit=limit,
        filters=list(filters),
        ranked_bytes=RANKED.itemsize,
    )


async def look_at_receipts(session: TenantSession, erasure_id: UUID, after: UUID, limit: int) -> VisitedReceipts:
    """Count the next receipts that name an erased entry."""
    return await session.fetch_only_as(
        VisitedReceipts, SQL["look_at_receipts"], id=erasure_id, after=after, limit=limit, ranked_bytes=RANKED.itemsize
    )


async def delete_of_subject(session: TenantSession, erasure_id: UUID, subject: str, limit: int) -> dict[str, int]:
    """Delete up to `limit` rows of each kind that belong to a subject; returns their numbers by table."""
    searches = await session.execute(SQL["delete_searches"], subject=subject, limit=limit)
    feedback = await session.execute(SQL["delete_feedback"], subject=subject, limit=limit)
    (saved,) = await session.fetch(SQL["delete_saved_searches"], subject=subject, limit=limit)
    requests = await session.execute(SQL["rename_requester"], id=erasure_id, subject=subject)
    callers = await session.execute(SQL["delete_caller"], subject=subject)
    counts = {"callers": callers, "searches": searches, "feedback": feedback, **saved, "erasures": requests}
    return {place: rows for place, rows in counts.items() if rows}


async def pseudonymise_actor(session: TenantSession, erasure_id: UUID, batch: int) -> int:
    """Replace the subject of an erasure in the audit trail, in up to `batch` rows; returns their number."""
    return int(await session.fetch_value(SQL["pseudonymise_actor"], id=erasure_id, batch=batch))


async def _count(session: TenantSession, statement: Statement, **parameters: Any) -> dict[str, int]:
    """Rows by place, without places that have none."""
    return await session.fetch_pairs(statement, **parameters)
