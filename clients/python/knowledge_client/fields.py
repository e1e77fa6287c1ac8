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


class EntryFields(TypedDict, total=False):
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
    readers: Sequence[str] | None
    writers: Sequence[str] | None


class NewEntry(EntryFields):
    """An entry to store."""

    content: Required[str]


class EntryChanges(EntryFields, total=False):
    """Changes to an entry."""

    content: str
