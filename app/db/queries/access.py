"""Readers and writers of entries and assets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.contract.access import Counts, ItemAccess, ItemKind
from app.db.queries.search import EntryFilter
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class Selection:
    """Entries and assets; None is not a condition. `principal`: that their readers or writers name."""

    ids: Sequence[UUID] | None
    principal: str | None
    entry_filter: EntryFilter


@dataclass(frozen=True, slots=True)
class Lists:
    """The readers and writers of a version of an item."""

    id: UUID
    readers: Sequence[str] | None
    writers: Sequence[str] | None
    version: int


@dataclass(frozen=True, slots=True)
class LinkedLists(Lists):
    """Lists of an entry that is linked to another one; it is the target of the link if it `is_target`."""

    is_target: bool


async def select_items(
    session: TenantSession, kind: ItemKind, selection: Selection, after: UUID | None, limit: int
) -> list[Lists]:
    """Selected entries that are not chunks, or assets, by id."""
    statement = SQL["entries" if kind == "entry" else "assets"]
    return await session.fetch_as(Lists, statement, after=after, limit=limit, **_conditions(selection))


async def select_linked(session: TenantSession, entry_id: UUID, selection: Selection, limit: int) -> list[LinkedLists]:
    """Selected entries that are linked to an entry, by a link of either."""
    return await session.fetch_as(LinkedLists, SQL["linked"], id=entry_id, limit=limit, **_conditions(selection))


def _conditions(selection: Selection) -> dict[str, Any]:
    wanted = selection.entry_filter
    return {
        "ids": None if selection.ids is None else list(selection.ids),
        "tags": wanted.tags,
        "all_tags": wanted.all_tags,
        "entry_types": wanted.entry_type,
        "principal": selection.principal,
        "filter": wanted.as_row(),
    }


async def fetch_access(session: TenantSession, kind: ItemKind, item_id: UUID) -> ItemAccess | None:
    """The readers and writers of an entry or an asset."""
    return await session.fetch_one_as(ItemAccess, SQL[kind], id=item_id)


async def count_items(session: TenantSession, most: int) -> Counts:
    """Rows that the transaction sees, counted up to `most`."""
    return await session.fetch_only_as(Counts, SQL["counts"], most=most)


async def list_restricted(session: TenantSession, after: UUID | None, limit: int) -> list[ItemAccess]:
    """Items that the transaction sees but some readers of the tenant do not, by id, without chunks."""
    return await session.fetch_as(ItemAccess, SQL["restricted"], after=after, limit=limit)
