"""Answers about who may read and change entries, assets and sources."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from knowledge_client.parts import Answer


class RefusedItem(Answer):
    """An entry or asset whose lists were not changed."""

    kind: str
    id: UUID
    reason: str


class ChangedAccess(Answer):
    """The number of items that matched, the number that were changed, and those that were refused.

    The other ones have the lists already. `next_cursor` continues, and is None at the end.
    """

    matched: int
    changed: int
    refused: list[RefusedItem]
    next_cursor: str | None


class PassingCaller(Answer):
    """A caller of the last 90 days that may read an item, and if `writes` is set, change it."""

    subject: str
    groups: list[str]
    roles: list[str]
    last_at: datetime
    writes: bool


class ItemReaders(Answer):
    """Who may read and change an item; `decided_by` is the item itself, its asset or its source.

    `readers` None means all readers of the tenant, `writers` None all of these with the role creator.
    """

    kind: str
    id: UUID | None
    name: str
    readers: list[str] | None
    writers: list[str] | None
    decided_by: str
    asset_id: UUID | None
    source: str | None
    callers: list[PassingCaller]


class ItemAccess(Answer):
    """An entry or asset that not all readers of the tenant may read."""

    kind: str
    id: UUID
    name: str
    readers: list[str] | None
    writers: list[str] | None
    asset_id: UUID | None
    source: str | None


class ItemCounts(Answer):
    """Numbers of entries that are not chunks, and of assets, counted up to 100,000."""

    entries: int
    assets: int


class SubjectAccess(Answer):
    """What a person may read: numbers, and a page of the items that not all readers may read.

    `groups_from` is `request`, `token` (the person's last one) or `none`.
    """

    subject: str
    groups: list[str]
    groups_from: str
    readable: ItemCounts
    total: ItemCounts
    items: list[ItemAccess]
    next_cursor: str | None
