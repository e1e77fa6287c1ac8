"""Permissions inside a tenant: change those of single items and of many, and show them to admins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from app.contract.access import (
    AccessPatch,
    AccessSelection,
    ChangedAccess,
    ItemKind,
    ItemReaders,
    ListedKind,
    PassingCaller,
    Refused,
    SubjectAccess,
)
from app.contract.assets import AssetPatch
from app.contract.entries import EntryDraft
from app.contract.fields import NAME_RULE, is_principal
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.principals import name_group, name_user, principals_of
from app.db.queries import access as db
from app.db.queries import assets, entries, sources, tenants
from app.db.queries.access import LinkedLists, Lists, Selection
from app.db.queries.tenants import KnownCaller
from app.db.session import TenantSession
from app.errors import (
    AssetNotFound,
    ConcurrentWrites,
    EntryExists,
    EntryNotFound,
    InvalidInput,
    KnowledgeError,
    PreconditionFailed,
    SourceNotFound,
)
from app.knowledge.audit import AuditTrail
from app.knowledge.entries.entry import own_draft
from app.knowledge.entries.service import EntryService, contains, find_outside, lock_entry, merge
from app.knowledge.ingestion.assets import AssetService, find_missing, refuse_twin
from app.knowledge.ingestion.assets import merge as merge_asset
from app.knowledge.paging import MAX_PAGE, read_cursor, unknown_cursor, write_cursor
from app.knowledge.search.query import filter_of

Principals = Sequence[str] | None


def change_lists(patch: AccessPatch, item: Lists) -> dict[str, Any]:
    """The lists that differ after the change. Raises InvalidInput."""
    lists: dict[str, Any] = {}
    if patch.readers is not None:
        lists["readers"] = patch.readers.apply(item.readers, "readers")
    if patch.writers is not None:
        lists["writers"] = patch.writers.apply(item.writers, "writers")
    return {name: after for name, after in lists.items() if after != getattr(item, name)}


def read_selection(where: AccessSelection) -> Selection:
    """The selection for the database."""
    query = SearchQuery(
        query="*", tags=where.tags, tags_match=where.tags_match, entry_type=where.entry_type, filter=where.filter
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


PLURALS: Mapping[ListedKind, str] = {"entry": "entries", "asset": "assets", "source": "sources"}
"""The part of an address that names the kind of an item."""

MOST_CALLERS = 100
MOST_COUNTED = 100_000
ACCESS_KEPT = timedelta(days=90)
"""How long a caller is known after its last call."""
WRITING = frozenset({"creator", "tenant_admin"})
"""Roles with which a caller may write."""


async def _find(session: TenantSession, kind: ListedKind, key: UUID | str) -> ItemReaders:
    """The item's lists, without callers."""
    if not isinstance(key, UUID):
        if (source := await sources.fetch_source(session, key)) is None:
            raise SourceNotFound("there is no source with this name")
        return ItemReaders("source", None, key, source.readers, source.writers, "source", None, key, ())
    kept: ItemKind = "entry" if kind == "entry" else "asset"
    if (found := await db.fetch_access(session, kept, key)) is None:
        raise (EntryNotFound if kept == "entry" else AssetNotFound)(f"there is no {kept} with this id")
    decided_by: ListedKind = "source" if found.source else "asset" if found.asset_id else found.kind
    lists = found.readers, found.writers
    return ItemReaders(found.kind, found.id, found.name, *lists, decided_by, found.asset_id, found.source, callers=())


def _groups_of(caller: KnownCaller) -> list[str]:
    return [each.removeprefix("group:") for each in caller.principals if each.startswith("group:")]


def _describe(caller: KnownCaller, writers: Sequence[str] | None) -> PassingCaller:
    passes = writers is None or not set(writers).isdisjoint(caller.principals)
    writes = passes and not WRITING.isdisjoint(caller.roles)
    return PassingCaller(caller.subject, _groups_of(caller), caller.roles, caller.last_at, writes)


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

    async def _rehearse(self, item: Lists, lists: Mapping[str, Any]) -> None:
        """Raise the errors of a change."""
        async with self.database.tenant_session(self.tenant_id) as session:
            if self.kind == "asset":
                patch = own_draft(AssetPatch(**lists))
                asset = await assets.lock_asset(session, item.id)
                if asset is None:
                    raise await find_missing(session, item.id)
                changed = merge_asset(patch, asset)
                if changed.readers != asset.readers:
                    await refuse_twin(session, changed)
                return
            linked = await db.select_linked(session, item.id, self.selection, MOST_LINKED)
            changing = {other.id: self._readers_after(other) for other in linked}
            draft = own_draft(EntryDraft(**lists))
            stored = await lock_entry(session, item.id, None)
            wanted = merge(stored, draft)
            if wanted.readers == stored.readers:
                return
            if (twin := await entries.find_twin(session, item.id, wanted.readers)) is not None:
                raise EntryExists(f"another entry with these readers has the same identity: {twin}", twin)
            if outside := await find_outside(session, [wanted], changing):
                raise InvalidInput([outside[item.id]])

    def _readers_after(self, item: Lists) -> Principals:
        """The readers after the change, or the present ones if it is refused."""
        try:
            return change_lists(self.change, item).get("readers", item.readers)
        except KnowledgeError:
            return item.readers

    async def _write(self, stored: Lists, lists: Mapping[str, Any]) -> None:
        version = stored.version
        if self.kind == "entry":
            draft = EntryDraft(**lists)
            await self.entries.change(self.tenant_id, stored.id, draft, if_version=version, actor=self.actor)
        else:
            patch = AssetPatch(**lists)
            await self.assets.change(self.tenant_id, stored.id, patch, if_version=(version,), actor=self.actor)


PAGE = 200
"""Items that one request visits; each change is a transaction of its own, of about 5 ms."""


class AccessService:
    """Shows who may read and change what in any tenant, to those who see all of it, and changes it."""

    def __init__(self, database: Database, trail: AuditTrail, entries: EntryService, assets: AssetService) -> None:
        self._database = database
        self._trail = trail
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

    async def who(
        self, tenant_id: UUID, kind: ListedKind, key: UUID | str, *, reader: str | None = None
    ) -> ItemReaders:
        """Who may read and change an entry or asset of this id, or a source of this name.

        With `reader`, recorded in the audit trail. Raises NotFound.
        """
        async with self._database.tenant_session(tenant_id) as session:
            found = await _find(session, kind, key)
            known = await tenants.list_known_callers(session, found.readers, MOST_CALLERS)
            subject = key if isinstance(key, UUID) else None
            await self._trail.note_read(session, reader, "access.read", subject)
        return replace(found, callers=[_describe(caller, found.writers) for caller in known])

    async def find_people(self, tenant_id: UUID, text: str, limit: int, *, reader: str | None = None) -> list[str]:
        """The callers of the last 90 days whose name has this text, the latest first."""
        async with self._database.tenant_session(tenant_id) as session:
            found = await tenants.search_callers(session, text, limit)
            await self._trail.note_read(session, reader, "access.read")
        return [caller.subject for caller in found]

    async def what(
        self,
        tenant_id: UUID,
        subject: str,
        groups: Sequence[str] | None = None,
        *,
        limit: int = 50,
        cursor: str | None = None,
        reader: str | None = None,
    ) -> SubjectAccess:
        """What a person may read: numbers, and the items that not all readers may read, by id.

        The database answers as it would answer the person. Without `groups`, those of its last token count. Raises
        InvalidInput.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidInput.of("limit", f"must be between 1 and {MAX_PAGE}")
        if not is_principal(name_user(subject)):
            raise InvalidInput.of("subject", NAME_RULE)
        if not all(is_principal(name_group(name)) for name in groups or ()):
            raise InvalidInput.of("group", NAME_RULE)
        _, after = read_place(cursor)
        origin: Literal["request", "token", "none"] = "request"
        async with self._database.tenant_session(tenant_id) as session:
            if groups is None:
                known = await tenants.find_caller(session, subject)
                groups = [] if known is None else _groups_of(known)
                origin = "none" if known is None else "token"
            total = await db.count_items(session, MOST_COUNTED)
            await self._trail.note_read(session, reader, "access.read")
            async with session.acting_as(principals_of(subject, groups)):
                readable = await db.count_items(session, MOST_COUNTED)
                items = await db.list_restricted(session, after, limit + 1)
        following = write_place("entry", items[limit - 1].id) if len(items) > limit else None
        return SubjectAccess(subject, list(groups), origin, readable, total, items[:limit], following)
