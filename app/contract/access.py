"""Permissions: who may read and change entries, assets and sources."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, ValidationInfo

from app.contract.entries import MAX_TAG, MAX_TAGS, Principals
from app.contract.fields import MAX_PRINCIPALS, Principal
from app.contract.filters import FILTER_DESCRIPTION, FilterObject
from app.contract.text import STORABLE, is_storable
from app.contract.validation import UNSET, Described, Items, Unset, request
from app.contract.vocabulary import EntryType, TagsMatch
from app.errors import InvalidInput

MOST_IDS = 1_000

ItemKind = Literal["entry", "asset"]
ListedKind = Literal["entry", "asset", "source"]
"""The kinds of items with readers and writers."""


@request
class ListChange:
    """A change of a list: either `set`, or `add` and `remove`."""

    set: Annotated[Principals | Unset | None, Field(description="The new list; null: all.")] = UNSET
    add: Annotated[Principals | None, Field(description="Principals to add. A list that is null stays null.")] = None
    remove: Principals | None = None
    """Principals to remove. An item without a list, or with no other principal, is refused."""

    def __post_init__(self) -> None:
        if self.set is UNSET and not self.add and not self.remove:
            raise ValueError("must have set, add or remove")
        if self.set is not UNSET and (self.add or self.remove):
            raise ValueError("must have either set, or add and remove")

    def apply(self, stored: Sequence[str] | None, field: str) -> Sequence[str] | None:
        """The list after the change. Raises InvalidInput where it leaves no principal, or cannot be taken from all."""
        if not isinstance(self.set, Unset):
            return None if self.set is None else list(self.set)  # as rows have it
        if stored is None:
            if self.remove:
                raise InvalidInput.of(field, "is null, which means all: set a list first")
            return None  # they may already
        left = sorted({*stored, *(self.add or ())}.difference(self.remove or ()))
        if not left:
            raise InvalidInput.of(field, "would be empty")
        if len(left) > MAX_PRINCIPALS:
            raise InvalidInput.of(field, f"would have more than {MAX_PRINCIPALS} principals")
        return left


def _check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    if not all(map(is_storable, tags)):
        raise ValueError(f"must be at most {MAX_TAGS} tags of 1 to {MAX_TAG} characters, {STORABLE}")
    return tuple(tags)


_CONDITIONS = ("ids", "tags", "entry_type", "filter", "principal")


@request
class AccessSelection:
    """Which items are changed: those that pass all conditions. At least one is required."""

    ids: Annotated[Items[UUID], Field(min_length=1, max_length=MOST_IDS), AfterValidator(tuple)] | None = None
    """Ids of entries and assets."""
    tags: (
        Annotated[
            Items[Annotated[str, Field(min_length=1, max_length=MAX_TAG)]],
            Field(min_length=1, max_length=MAX_TAGS),
            AfterValidator(_check_tags),
        ]
        | None
    ) = None
    """Tags, as in a search."""
    tags_match: Annotated[TagsMatch, Field(description="Whether one tag or all are needed. Default: any.")] = "any"
    entry_type: EntryType | Annotated[Items[EntryType], Field(min_length=1), AfterValidator(tuple)] | None = None
    """Types, as in a search; the type of an asset is `chunk`."""
    filter: Annotated[
        FilterObject | None, Field(description=f"{FILTER_DESCRIPTION} An asset passes if one of its chunks does.")
    ] = None
    principal: Annotated[Principal | None, Field(examples=["group:finance"])] = None
    """Items whose readers or writers name this principal."""

    def __post_init__(self) -> None:
        if all(getattr(self, name) is None for name in _CONDITIONS):
            raise ValueError(f"must have at least one of {', '.join(_CONDITIONS)}")


def _check_lists(readers: ListChange | None, info: ValidationInfo) -> ListChange | None:
    if readers is None and info.data.get("writers", UNSET) is None:
        raise ValueError("and writers must not both be absent")
    return readers


@request(schema={"examples": [{"where": {"tags": ["payroll"]}, "readers": {"set": ["group:finance", "group:hr"]}}]})
class AccessPatch:
    """A change of who may read and change entries and assets."""

    where: AccessSelection
    writers: Annotated[ListChange | None, Field(description="Who may change them. Default: unchanged.")] = None
    readers: Annotated[ListChange | None, AfterValidator(_check_lists), Field(validate_default=True)] = None
    """Who may read them. Default: unchanged."""
    dry_run: Annotated[bool, Field(strict=True)] = False
    """Whether to change nothing, and only count. Default: false."""
    cursor: Annotated[str | None, Field(description="`next_cursor` of the former answer.")] = None


@dataclass(frozen=True, slots=True)
class Refused:
    """An item that was not changed."""

    kind: ItemKind
    id: UUID
    reason: str


@dataclass(frozen=True, slots=True)
class ChangedAccess(Described):
    """The items of this request, at most 200; another request with `next_cursor` continues."""

    matched: int
    changed: int
    """The others have the lists already, or were refused. A linked entry of a later page may count."""
    refused: Sequence[Refused]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class PassingCaller:
    """A caller that may read the item, as its last token described it."""

    subject: str
    groups: Sequence[str]
    roles: Sequence[str]
    last_at: datetime
    writes: Annotated[bool, Field(description="Whether it may also change the item.")]


@dataclass(frozen=True, slots=True)
class ItemReaders(Described):
    """Who may read and change an item."""

    kind: ListedKind
    id: UUID | None
    name: str
    readers: Annotated[Sequence[str] | None, Field(description="Null: all readers of the tenant.")]
    writers: Annotated[Sequence[str] | None, Field(description="Null: all of these with the role creator.")]
    decided_by: ListedKind
    """What has the lists: a chunk has those of its asset, and an asset those of its source."""
    asset_id: UUID | None
    source: str | None
    callers: Sequence[PassingCaller]
    """Callers of the last 90 days that may read it, the latest first, at most 100."""


@dataclass(frozen=True, slots=True)
class ItemAccess:
    """An entry or asset that not all readers of the tenant may read."""

    kind: ItemKind
    id: UUID
    name: str
    readers: Sequence[str] | None
    writers: Sequence[str] | None
    asset_id: UUID | None
    source: str | None


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of entries that are not chunks, and of assets, counted up to 100,000."""

    entries: int
    assets: int


@dataclass(frozen=True, slots=True)
class SubjectAccess(Described):
    """What a person may read."""

    subject: str
    groups: Sequence[str]
    groups_from: Literal["request", "token", "none"]
    """Where the groups are from: the request, or the person's last token of the last 90 days."""
    readable: Annotated[Counts, Field(description="What the person may read.")]
    total: Annotated[Counts, Field(description="What there is.")]
    items: Sequence[ItemAccess]
    """What the person may read and not all readers of the tenant may, by id."""
    next_cursor: str | None
