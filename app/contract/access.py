"""Permissions: who may read and change entries, assets and sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

ItemKind = Literal["entry", "asset"]
ListedKind = Literal["entry", "asset", "source"]
"""What has readers and writers."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An item that was not changed."""

    kind: ItemKind
    id: UUID
    reason: str


@dataclass(frozen=True, slots=True)
class ChangedAccess:
    """The items of this request, at most 200; another request with `next_cursor` continues."""

    matched: int
    changed: Annotated[
        int,
        Field(
            description="The others have the lists already, or were refused. A linked entry of a later page may count."
        ),
    ]
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
class ItemReaders:
    """Who may read and change an item."""

    kind: ListedKind
    id: UUID | None
    name: str
    readers: Annotated[Sequence[str] | None, Field(description="Null: all readers of the tenant.")]
    writers: Annotated[Sequence[str] | None, Field(description="Null: all of these with the role creator.")]
    decided_by: Annotated[
        ListedKind,
        Field(
            description="What has the lists: a chunk has those of its asset, and an asset those of its source."
        ),
    ]
    asset_id: UUID | None
    source: str | None
    callers: Annotated[
        Sequence[PassingCaller],
        Field(description="Callers of the last 90 days that may read it, the latest first, at most 100."),
    ]


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
class SubjectAccess:
    """What a person may read."""

    subject: str
    groups: Sequence[str]
    groups_from: Annotated[
        Literal["request", "token", "none"],
        Field(
            description="Where the groups are from: the request, or the person's last token of the last 90 days."
        ),
    ]
    readable: Annotated[Counts, Field(description="What the person may read.")]
    total: Annotated[Counts, Field(description="What there is.")]
    items: Annotated[
        Sequence[ItemAccess],
        Field(description="What the person may read and not all readers of the tenant may, by id."),
    ]
    next_cursor: str | None
