"""Resolve changes of readers and writers, and check whether they would be refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal
from uuid import UUID

from app.contract.access import AccessPatch, AccessSelection, ItemKind
from app.contract.assets import AssetPatch
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.queries import assets, entries
from app.db.queries.access import Lists, Selection
from app.db.session import TenantSession
from app.errors import EntryExists, InvalidInput
from app.knowledge.entries.entry import own_draft
from app.knowledge.entries.writing import find_outside, lock_entry, merge
from app.knowledge.ingestion.changes import find_missing, refuse_twin
from app.knowledge.ingestion.changes import merge as merge_asset
from app.knowledge.paging import read_cursor, unknown_cursor, write_cursor
from app.knowledge.search.query import filter_of

Principals = Sequence[str] | None
ListName = Literal["readers", "writers"]


def change_lists(patch: AccessPatch, item: Lists) -> dict[ListName, Principals]:
    """The lists that differ after the change. Raises InvalidInput."""
    lists: dict[ListName, Principals] = {}
    if patch.readers is not None:
        lists["readers"] = patch.readers.apply(item.readers, "readers")
    if patch.writers is not None:
        lists["writers"] = patch.writers.apply(item.writers, "writers")
    return {name: after for name, after in lists.items() if after != getattr(item, name)}


def read_selection(where: AccessSelection) -> Selection:
    """The selection for the database."""
    query = SearchQuery(
        query="*",
        tags=where.tags,
        tags_match=where.tags_match,
        entry_type=where.entry_type,
        filter=where.filter,
    )
    return Selection(where.ids, where.principal, filter_of(query))


ORDER = "access"


def read_place(cursor: str | None) -> tuple[ItemKind, UUID | None]:
    """The kind and the last item of a cursor. Raises InvalidInput."""
    if cursor is None:
        return "entry", None
    place = read_cursor(cursor, ORDER)
    if place[:1] not in (b"a", b"e") or len(place) not in (1, 17):
        raise unknown_cursor()
    return "asset" if place[:1] == b"a" else "entry", UUID(bytes=place[1:]) if len(place) == 17 else None


def write_place(kind: ItemKind, last: UUID | None) -> str:
    """The cursor after an item; None: of the first item of this kind."""
    return write_cursor(kind[:1].encode() + (b"" if last is None else last.bytes), ORDER)


async def check_entry(
    session: TenantSession, entry_id: UUID, draft: EntryDraft, changing: Mapping[UUID, Principals]
) -> None:
    """Raise the errors of a change of an entry's lists; `changing` has the readers that others would get."""
    valid = own_draft(draft)
    stored = await lock_entry(session, entry_id, None)
    wanted = merge(stored, valid)
    if wanted.readers != stored.readers:
        if (twin := await entries.find_twin(session, entry_id, wanted.readers)) is not None:
            raise EntryExists(f"another entry with these readers has the same identity: {twin}", twin)
        if outside := await find_outside(session, [wanted], changing):
            raise InvalidInput([outside[entry_id]])


async def check_asset(session: TenantSession, asset_id: UUID, patch: AssetPatch) -> None:
    """Raise the errors of a change of an asset's lists."""
    valid = own_draft(patch)
    stored = await assets.lock_asset(session, asset_id)
    if stored is None:
        raise await find_missing(session, asset_id)
    wanted = merge_asset(valid, stored)
    if wanted.readers != stored.readers:
        await refuse_twin(session, wanted)
