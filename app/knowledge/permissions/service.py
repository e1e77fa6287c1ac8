"""Change the permissions of single items and of many entries and assets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from app.contract.access import AccessPatch, ChangedAccess, ItemKind, Refused
from app.contract.assets import AssetPatch
from app.contract.entries import EntryDraft
from app.db.database import Database
from app.db.queries import access as db
from app.db.queries.access import LinkedLists, Lists, Selection
from app.errors import ConcurrentWrites, KnowledgeError, PreconditionFailed
from app.knowledge.audit import AuditTrail
from app.knowledge.entries.service import EntryService
from app.knowledge.entries.writing import contains
from app.knowledge.ingestion.assets import AssetService
from app.knowledge.permissions.changes import (
    ListName,
    Principals,
    change_lists,
    check_asset,
    check_entry,
    read_place,
    read_selection,
    write_place,
)
from app.knowledge.permissions.overview import AccessOverview

ATTEMPTS = 5
"""Times that an item is read again because another request has just changed it."""

MOST_LINKED = 1_000
"""Linked entries that are checked for one entry."""
LONGEST_CHAIN = 100
"""Entries linked in a row that are changed in the order of their links."""


@dataclass(slots=True)
class ItemChanges:
    """Applies a change to selected items, each in a transaction of its own.

    A list is only replaced if it is still the one to which the change was applied: otherwise a principal that another
    request has removed in the meantime would be back. Of two linked entries, the one that would end the link or be
    refused because of it is changed after the other.

    Attributes:
        changed: how many items were changed.
        failures: why items could not be changed, by id.
    """

    database: Database
    entries: EntryService
    assets: AssetService
    tenant_id: UUID
    kind: ItemKind
    selection: Selection
    change: AccessPatch
    actor: str
    changed: int = 0
    failures: dict[UUID, KnowledgeError] = field(default_factory=dict)
    _seen: set[UUID] = field(default_factory=set)

    async def apply(self, item: Lists, chain: int = 0) -> None:
        """Change an item, and before it those linked entries that have to be changed first."""
        if item.id in self._seen:
            return
        self._seen.add(item.id)
        try:
            lists = change_lists(self.change, item)
            if self.change.dry_run:
                if lists:
                    await self._rehearse(item, lists)
                    self.changed += 1
                return
            if "readers" in lists and self.kind == "entry" and chain < LONGEST_CHAIN:
                for other in await self._find_first(item, lists["readers"]):
                    await self.apply(other, chain + 1)
            self.changed += await self._replace(item)
        except KnowledgeError as error:
            self.failures[item.id] = error

    async def _find_first(self, item: Lists, readers: Principals) -> list[LinkedLists]:
        """Entries that have to be changed before one that gets these readers."""
        async with self.database.tenant_session(self.tenant_id) as session:
            linked = await db.select_linked(session, item.id, self.selection, MOST_LINKED)
        return [other for other in linked if other.id not in self._seen and self._goes_first(other, item, readers)]

    def _goes_first(self, other: LinkedLists, item: Lists, readers: Principals) -> bool:
        """Whether the link of both would not hold between the changes of `item` and `other`, and would otherwise."""
        after = self._readers_after(other)
        if other.is_target:
            return contains(after, item.readers) and not contains(other.readers, readers)
        return contains(item.readers, after) and not contains(readers, other.readers)

    async def _replace(self, item: Lists) -> bool:
        stored: Lists | None = item
        for _ in range(ATTEMPTS):
            if stored is None or not (lists := change_lists(self.change, stored)):
                return False
            try:
                await self._write(stored, lists)
            except PreconditionFailed:
                stored = await self._read(item.id)
            else:
                return True
        raise ConcurrentWrites("other requests are changing the item; try again")

    async def _read(self, item_id: UUID) -> Lists | None:
        """The item as it is now; None if it is not selected any more."""
        alone = replace(self.selection, ids=[item_id])
        async with self.database.tenant_session(self.tenant_id) as session:
            found = await db.select_items(session, self.kind, alone, None, 1)
        return found[0] if found else None

    async def _rehearse(self, item: Lists, lists: Mapping[ListName, Principals]) -> None:
        async with self.database.tenant_session(self.tenant_id) as session:
            if self.kind == "asset":
                await check_asset(session, item.id, AssetPatch(**_given(lists)))
                return
            linked = await db.select_linked(session, item.id, self.selection, MOST_LINKED)
            changing = {other.id: self._readers_after(other) for other in linked}
            await check_entry(session, item.id, EntryDraft(**_given(lists)), changing)

    def _readers_after(self, item: Lists) -> Principals:
        """The readers after the change, or the present ones if it is refused."""
        try:
            return change_lists(self.change, item).get("readers", item.readers)
        except KnowledgeError:
            return item.readers

    async def _write(self, stored: Lists, lists: Mapping[ListName, Principals]) -> None:
        given, version = _given(lists), stored.version
        if self.kind == "entry":
            draft = EntryDraft(**given)
            await self.entries.change(self.tenant_id, stored.id, draft, if_version=version, actor=self.actor)
        else:
            patch = AssetPatch(**given)
            await self.assets.change(self.tenant_id, stored.id, patch, if_version=(version,), actor=self.actor)


def _given(lists: Mapping[ListName, Principals]) -> dict[str, Any]:
    return dict(lists.items())


PAGE = 200
"""Items that one request visits; each change is a transaction of its own, of about 5 ms."""


class AccessService:
    """Changes who may read and change the entries and assets of any tenant."""

    def __init__(self, database: Database, trail: AuditTrail, entries: EntryService, assets: AssetService) -> None:
        self.overview = AccessOverview(database, trail)
        self._database = database
        self._entries = entries
        self._assets = assets

    async def change(self, tenant_id: UUID, patch: AccessPatch, *, actor: str = "service") -> ChangedAccess:
        """Change the lists of the next PAGE selected items that the caller sees: entries first, then assets.

        Chunks have the lists of their assets. Each item is changed by itself, and items that cannot be changed are
        `refused`. With `dry_run` nothing is changed, and of two items that the change would make the same
        none is refused. Raises InvalidInput.
        """
        wanted = read_selection(patch.where)
        kind, after = read_place(patch.cursor)
        async with self._database.tenant_session(tenant_id) as session:
            found = await db.select_items(session, kind, wanted, after, PAGE + 1)
        page = found[:PAGE]
        items = ItemChanges(self._database, self._entries, self._assets, tenant_id, kind, wanted, patch, actor)
        for item in page:
            await items.apply(item)
        failures = items.failures
        refused = [Refused(kind, item.id, str(failures[item.id])) for item in page if item.id in failures]
        following = write_place(kind, page[-1].id) if len(found) > PAGE else None
        if following is None and kind == "entry":
            following = write_place("asset", None)
        return ChangedAccess(len(page), items.changed, refused, following)
