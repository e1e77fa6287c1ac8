"""Changes of the permissions of many entries and assets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.database import Database
from app.db.queries.knowledge import access as db
from app.db.queries.knowledge.access import ItemKind
from app.knowledge.audit import AuditTrail
from app.knowledge.entries.service import EntryService
from app.knowledge.ingestion.assets import AssetService
from app.knowledge.permissions.changes import AccessChange
from app.knowledge.permissions.items import ItemChanges
from app.knowledge.permissions.overview import AccessOverview
from app.knowledge.permissions.places import read_place, write_place
from app.knowledge.permissions.selection import AccessSelection

PAGE = 200
"""Items that one request looks at; each change is a transaction of its own, of about 5 ms."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An item that was not changed, and why."""

    kind: ItemKind
    id: UUID
    reason: str


@dataclass(frozen=True, slots=True)
class ChangedAccess:
    """How many of the `matched` items of a page were changed; the next page begins at the cursor."""

    matched: int
    changed: int
    refused: Sequence[Refused]
    next_cursor: str | None


class AccessService:
    """Changes who may read and change the entries and assets of any tenant."""

    def __init__(
        self, database: Database, trail: AuditTrail, entries: EntryService, assets: AssetService
    ) -> None:
        self.overview = AccessOverview(database, trail)
        self._database = database
        self._entries = entries
        self._assets = assets

    async def change(
        self,
        tenant_id: UUID,
        selection: AccessSelection,
        change: AccessChange,
        *,
        dry_run: bool = False,
        cursor: str | None = None,
        actor: str = "service",
    ) -> ChangedAccess:
        """Change the lists of the next PAGE selected items that the caller sees: entries first, then assets.

        Chunks have the lists of their assets. Each item is changed by itself, and items that cannot be changed are
        `refused`. With `dry_run` nothing is changed, and of two items that the change would make the same
        none is refused. Raises InvalidInput.
        """
        change.check()
        wanted = selection.read()
        kind, after = read_place(cursor)
        async with self._database.tenant_session(tenant_id) as session:
            found = await db.select_items(session, kind, wanted, after, PAGE + 1)
        page = found[:PAGE]
        items = ItemChanges(
            self._database, self._entries, self._assets, tenant_id, kind, wanted, change, actor, dry_run
        )
        for item in page:
            await items.apply(item)
        failures = items.failures
        refused = [Refused(kind, item.id, str(failures[item.id])) for item in page if item.id in failures]
        following = write_place(kind, page[-1].id) if len(found) > PAGE else None
        if following is None and kind == "entry":
            following = write_place("asset", None)
        return ChangedAccess(len(page), items.changed, refused, following)
