"""Changes of lists of principals: which items, which lists, and whether a change would be refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from app.contract.access import ItemKind
from app.contract.entries import EntryDraft
from app.contract.principals import MAX_PRINCIPALS, PRINCIPAL_RULE, RULE, is_principal, is_principal_list
from app.contract.search import SearchQuery
from app.contract.validation import UNSET, Unset
from app.contract.vocabulary import EntryType, TagsMatch
from app.db.queries.knowledge import assets, entries
from app.db.queries.knowledge.access import Lists, Selection
from app.db.session import TenantSession
from app.errors import EntryExists, FieldError, InvalidInput
from app.knowledge.entries.entry import own_draft
from app.knowledge.entries.writing import find_outside, lock_entry, merge
from app.knowledge.ingestion.changes import AssetDraft, find_missing, refuse_twin
from app.knowledge.paging import read_cursor, unknown_cursor, write_cursor
from app.knowledge.search.query import filter_of

Principals = Sequence[str] | None
ListName = Literal["readers", "writers"]


@dataclass(frozen=True, slots=True)
class ListChange:
    """A change of one list: `set` replaces it (None: all), otherwise principals are added and removed."""

    set: Principals | Unset = UNSET
    add: Sequence[str] = ()
    remove: Sequence[str] = ()

    def check(self, field: str) -> None:
        """Raise InvalidInput for principals that are none, and for a change without any."""
        if not isinstance(self.set, Unset):
            if self.add or self.remove:
                raise InvalidInput.of(field, "must have either set, or add and remove")
            if self.set is not None and not is_principal_list(self.set):
                raise InvalidInput.of(f"{field}.set", RULE)
            return
        for name, given in (("add", self.add), ("remove", self.remove)):
            if len(given) > MAX_PRINCIPALS or not all(map(is_principal, given)):
                raise InvalidInput.of(
                    f"{field}.{name}", f"must be at most {MAX_PRINCIPALS} of group:NAME and user:SUB"
                )
        if not self.add and not self.remove:
            raise InvalidInput.of(field, "must have set, add or remove")

    def apply(self, stored: Principals, field: str) -> Principals:
        """The list after the change. Raises InvalidInput where it leaves no principal, or cannot be taken from all."""
        if not isinstance(self.set, Unset):
            return self.set
        if stored is None:
            if self.remove:
                raise InvalidInput([FieldError(field, "is null, which means all: set a list first")])
            return None  # they may already
        left = sorted((set(stored) | set(self.add)) - set(self.remove))
        if not left:
            raise InvalidInput([FieldError(field, "would be empty")])
        if len(left) > MAX_PRINCIPALS:
            raise InvalidInput([FieldError(field, f"would have more than {MAX_PRINCIPALS} principals")])
        return left


@dataclass(frozen=True, slots=True)
class AccessChange:
    """A change of who may read, and of who may change; None leaves a list as it is."""

    readers: ListChange | None = None
    writers: ListChange | None = None

    def check(self) -> None:
        """Raise InvalidInput for a change that changes nothing, or names no principals."""
        if self.readers is None and self.writers is None:
            raise InvalidInput.of("readers", "and writers must not both be absent")
        for field, change in (("readers", self.readers), ("writers", self.writers)):
            if change is not None:
                change.check(field)

    def apply(self, item: Lists) -> dict[ListName, Principals]:
        """The lists that differ after the change. Raises InvalidInput."""
        lists: dict[ListName, Principals] = {}
        if self.readers is not None:
            lists["readers"] = self.readers.apply(item.readers, "readers")
        if self.writers is not None:
            lists["writers"] = self.writers.apply(item.writers, "writers")
        return {name: after for name, after in lists.items() if after != getattr(item, name)}


MOST_IDS = 1_000
_CONDITIONS = ("ids", "tags", "entry_type", "filter", "principal")


@dataclass(frozen=True, slots=True)
class AccessSelection:
    """Entries and assets that pass all of these conditions, of which there is at least one.

    Attributes:
        ids: of entries and assets, 1 to 1,000.
        tags, tags_match, entry_type, filter: as in a search. An asset passes a filter if one of its chunks does; its
            type is `chunk`.
        principal: one that the readers or writers name.
    """

    ids: Sequence[UUID] | None = None
    tags: Sequence[str] | None = None
    tags_match: TagsMatch = "any"
    entry_type: EntryType | Sequence[EntryType] | None = None
    filter: Mapping[str, Any] | None = None
    principal: str | None = None

    def read(self) -> Selection:
        """The selection for the database. Raises InvalidInput."""
        if self.ids is not None and not 1 <= len(self.ids) <= MOST_IDS:
            raise InvalidInput.of("where.ids", f"must be 1 to {MOST_IDS:,} ids")
        if self.principal is not None and not is_principal(self.principal):
            raise InvalidInput.of("where.principal", PRINCIPAL_RULE)
        if all(getattr(self, name) is None for name in _CONDITIONS):
            raise InvalidInput.of("where", f"must have at least one of {', '.join(_CONDITIONS)}")
        try:
            found = filter_of(
                SearchQuery(
                    query="*",
                    tags=self.tags,
                    tags_match=self.tags_match,
                    entry_type=self.entry_type,
                    filter=self.filter,
                )
            )
        except InvalidInput as error:
            raise InvalidInput(
                [FieldError(f"where.{each.field}", each.message) for each in error.errors]
            ) from None
        return Selection(self.ids, found.tags, found.all_tags, found.entry_types, self.principal, found)


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
    """Raise what the change of an entry's lists would; `changing` has the readers that others would get."""
    valid = own_draft(draft)
    stored = await lock_entry(session, entry_id, None)
    wanted = merge(stored, valid)
    if wanted.readers != stored.readers:
        if (twin := await entries.find_twin(session, entry_id, wanted.readers)) is not None:
            raise EntryExists(f"another entry with these readers has the same identity: {twin}", twin)
        if outside := await find_outside(session, [wanted], changing):
            raise InvalidInput([outside[entry_id]])


async def check_asset(session: TenantSession, asset_id: UUID, draft: AssetDraft) -> None:
    """Raise what the change of an asset's lists would."""
    valid = draft.checked()
    stored = await assets.lock_asset(session, asset_id)
    if stored is None:
        raise await find_missing(session, asset_id)
    wanted = valid.merge(stored)
    if wanted.readers != stored.readers:
        await refuse_twin(session, wanted)
