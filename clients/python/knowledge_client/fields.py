"""Fields of requests; the service's own documentation (`/docs`) describes their meaning and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict
from uuid import UUID

Mode = Literal["hybrid", "semantic", "keyword"]
GroupBy = Literal["asset"]
EntrySort = Literal["created_at", "-created_at", "updated_at", "-updated_at", "title", "-title"]
AssetSort = Literal["created_at", "-created_at", "updated_at", "-updated_at", "name", "-name"]
SavedSearchSort = Literal["created_at", "-created_at", "name", "-name"]
TagSort = Literal["tag", "-tag", "count", "-count"]
EntryType = Literal["fact", "summary", "template", "decision", "lesson", "temp_note", "insight", "chunk"]
WritableType = Literal["fact", "summary", "template", "decision", "lesson", "temp_note", "insight"]
Role = Literal["pm", "dev", "qa", "all"]
Scope = Literal["global", "project"]
Id = UUID | str


class Weights(TypedDict):
    """The weight of each leg; the sum is 1."""

    semantic: float
    keyword: float


class SearchOptions(TypedDict, total=False):
    """Options of a search, in addition to its query."""

    mode: Mode
    limit: int | None
    similarity_threshold: float | None
    weights: Weights | None
    role: Role | None
    tags: Sequence[str] | None
    tags_match: Literal["any", "all"]
    entry_type: EntryType | Sequence[EntryType] | None
    min_confidence: float | None
    scope: Scope | None
    source: Literal["entry", "asset"] | None
    asset_id: Sequence[Id] | None
    metadata: Mapping[str, Any] | None
    filter: Mapping[str, Any] | None
    created_after: datetime | None
    created_before: datetime | None
    updated_after: datetime | None
    updated_before: datetime | None
    as_of: datetime | None
    include_superseded: bool
    boost: Sequence[Literal["type", "access", "verified"]]
    fusion: Literal["rrf", "score"] | None
    rrf_k: int
    ef_search: int | None
    query_embedding: Sequence[float] | None
    explain: bool
    diversity: float
    rerank: bool | None
    group_by: GroupBy | None
    facets: Sequence[str]
    cursor: str | None


class SearchRequest(SearchOptions):
    """A whole search, for a batch."""

    query: Required[str]


class AccessLists(TypedDict, total=False):
    """Who may read and change an item: `group:NAME` and `user:SUB`; None: all readers, all creators among them."""

    readers: Sequence[str] | None
    writers: Sequence[str] | None


class EntryFields(AccessLists, total=False):
    """Optional fields of an entry; fields that are omitted keep their value, or get their default."""

    entry_type: WritableType
    title: str | None
    tags: Sequence[str]
    roles: Sequence[Role]
    confidence: float
    scope: Scope
    parent_id: Id | None
    source_ids: Sequence[Id]
    metadata: Mapping[str, Any]
    language: str | None
    expires_at: datetime | None
    superseded_by_id: Id | None
    is_verified: bool
    external_id: str | None


class NewEntry(EntryFields):
    """An entry to store."""

    content: Required[str]


class EntryChanges(EntryFields, total=False):
    """Changes to an entry."""

    content: str


class ListChange(TypedDict, total=False):
    """A change of readers or writers, `group:NAME` and `user:SUB`: either `set` (None: all), or `add` and `remove`."""

    set: Sequence[str] | None
    add: Sequence[str]
    remove: Sequence[str]


class AccessSelection(TypedDict, total=False):
    """Entries and assets that pass all of these conditions, of which at least one is needed.

    `tags`, `entry_type` and `filter` are those of a search; an asset passes a filter if one of its chunks does.
    `principal` is one that the readers or writers name.
    """

    ids: Sequence[Id]
    tags: Sequence[str]
    tags_match: Literal["any", "all"]
    entry_type: EntryType | Sequence[EntryType]
    filter: Mapping[str, Any]
    principal: str
