"""Entries: the stored knowledge, as it is written, read and listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from app.contract.vocabulary import Audience, EntryType, Relationship, Scope

MAX_RELATED = 20
"""Most related entries in an answer."""
MAX_COUNTED = 1_000
"""Most related entries of one kind that are counted."""


@dataclass(frozen=True, slots=True)
class EntryCore:
    """What every form of an entry has: the entry itself, a hit, a former version and a match of a subscription."""

    id: UUID
    entry_type: EntryType
    title: str | None
    content: str
    tags: Sequence[str]
    roles: Sequence[Audience]
    confidence: float
    scope: Scope
    parent_id: UUID | None
    source_ids: Sequence[UUID]
    superseded_by_id: UUID | None
    is_verified: bool
    asset_id: UUID | None
    external_id: str | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WrittenEntry(EntryCore):
    """The fields of an entry that its writers set, and its place."""

    language: str
    expires_at: datetime | None
    readers: Annotated[
        Sequence[str] | None, Field(description="Who may read the entry; null: all readers of the tenant.")
    ]
    writers: Annotated[
        Sequence[str] | None,
        Field(description="Who of them may change the entry, with the role creator; null: all of them."),
    ]


@dataclass(frozen=True, slots=True)
class Entry(WrittenEntry):
    """A stored entry."""

    asset_name: str | None
    chunk_index: int | None
    quarantined: Annotated[
        bool,
        Field(
            description="Whether searches do not find the entry because of its flags, until an admin releases it."
        ),
    ]
    embedding_status: Literal["ready", "pending"]
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class FormerVersion(EntryCore):
    """An entry as it was from `valid_from` until just before `valid_until`."""

    version: int
    valid_from: datetime
    valid_until: datetime
    chunk_index: int | None
    language: str
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class TagCount:
    """A tag of the tenant's entries."""

    tag: Annotated[str, Field(examples=["backup"])]
    count: Annotated[
        int, Field(description="Entries that a search with this tag alone can find.", examples=[12])
    ]


@dataclass(frozen=True, slots=True)
class RelatedEntry(Entry):
    """A related entry."""

    relationship: Relationship
    overlap_count: Annotated[int | None, Field(description="Number of shared tags, for tag_overlap.")]


@dataclass(frozen=True, slots=True)
class RelatedMetadata:
    """The number of related entries and the kinds of relationship among them."""

    total: Annotated[
        int, Field(description=f"All related entries; of each kind, at most {MAX_COUNTED:,} are counted.")
    ]
    relationship_types: Annotated[Sequence[Relationship], Field(description="The kinds among the results.")]


@dataclass(frozen=True, slots=True)
class RelatedResponse:
    """The parent, then siblings, children, sources, derived entries, and entries that share two or more tags."""

    results: Sequence[RelatedEntry]
    metadata: RelatedMetadata


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The outcome of one entry of a bulk write."""

    index: int
    id: UUID | None
    status: Literal["created", "updated", "unchanged", "failed"]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class BulkResponse:
    """One result for each entry, in the order of the request."""

    results: Sequence[BulkResult]
