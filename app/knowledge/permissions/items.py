"""Changes of the lists of single items, which other requests can change at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from app.db.database import Database
from app.db.queries.knowledge import access as db
from app.db.queries.knowledge.access import ItemKind, Lists, Selection
from app.errors import ConcurrentWrites, PreconditionFailed
from app.knowledge.entries.drafts import UNSET, EntryDraft
from app.knowledge.entries.service import EntryService
from app.knowledge.ingestion.assets import AssetService
from app.knowledge.ingestion.changes import AssetDraft
from app.knowledge.permissions.changes import AccessChange, ListName, Principals

ATTEMPTS = 5
"""Times that an item is read again because another request has just changed it."""


@dataclass(frozen=True, slots=True)
class ItemChanges:
    """Applies a change to selected items, each in a transaction of its own.

    A list is only replaced if it is still the one to which the change was applied: otherwise a principal that another
    request has removed in the meantime would be back.
    """

    database: Database
    entries: EntryService
    assets: AssetService
    tenant_id: UUID
    kind: ItemKind
    selection: Selection
    change: AccessChange
    actor: str

    async def apply(self, item: Lists) -> bool:
        """Change an item; whether its lists differ now. Raises as a change of the item does."""
        stored: Lists | None = item
        for _ in range(ATTEMPTS):
            if stored is None or not (lists := self.change.apply(stored)):
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

    async def _write(self, stored: Lists, lists: Mapping[ListName, Principals]) -> None:
        readers, writers = lists.get("readers", UNSET), lists.get("writers", UNSET)
        if self.kind == "entry":
            draft = EntryDraft(readers=readers, writers=writers)
            await self.entries.change(
                self.tenant_id, stored.id, draft, if_version=stored.version, actor=self.actor
            )
        else:
            asset = AssetDraft(readers=readers, writers=writers)
            await self.assets.change(
                self.tenant_id, stored.id, asset, if_version=(stored.version,), actor=self.actor
            )
