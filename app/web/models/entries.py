"""Entries as they are written and read."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from app.knowledge.entries.entry import (
    MAX_BULK,
    MAX_CONTENT,
    MAX_EXTERNAL_ID,
    MAX_ROLES,
    MAX_SOURCES,
    MAX_TAG,
    MAX_TAGS,
    MAX_TITLE,
)
from app.knowledge.languages import LANGUAGES
from app.knowledge.vocabulary import EntryType, Role, Scope, WritableType

Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


def _written(moment: object) -> object:
    """A date and time as text: pydantic would also take numbers, as seconds since 1970."""
    if isinstance(moment, str) and moment.strip().lstrip("+-").replace(".", "", 1).isdigit():
        raise ValueError("must be a date and time, such as 2026-01-31T12:00:00Z")
    if isinstance(moment, bool | int | float):
        raise ValueError("must be a date and time, such as 2026-01-31T12:00:00Z")
    return moment


Moment = Annotated[datetime, BeforeValidator(_written)]


class EntryFields(BaseModel):
    """What may be said of an entry; a field that is left out keeps its value, or takes its default."""

    model_config = ConfigDict(extra="forbid")

    entry_type: WritableType = Field(
        "fact",
        description="decision: what was chosen and why; lesson: what experience taught; insight and summary: made"
        " from other entries (source_ids); template: text to fill in; temp_note: of passing use.",
    )
    title: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_TITLE,
        description="What it is about, in a few words; its words count more in searches.",
    )
    tags: list[Annotated[str, Field(min_length=1, max_length=MAX_TAG)]] = Field(
        default_factory=list, max_length=MAX_TAGS, description="Subjects; entries that share two are related."
    )
    roles: list[Role] = Field(
        ["all"], min_length=1, max_length=MAX_ROLES, description="Whom it is meant for; no permission."
    )
    confidence: Share = Field(1.0, description="How sure its author is, 0 to 1.")
    scope: Scope = Field("global", description="Whether it holds everywhere, or in one project only.")
    parent_id: UUID | None = Field(None, description="An entry that this one is a part of.")
    source_ids: list[UUID] = Field(
        default_factory=list, max_length=MAX_SOURCES, description="Entries that this one was made from."
    )
    metadata: dict[str, Any] = Field(
        default_factory=dict, description="Anything else, as a JSON object; searches can filter by it."
    )
    language: Annotated[str, WithJsonSchema({"type": "string", "enum": sorted(LANGUAGES)})] | None = Field(
        None,
        description="A Postgres text-search configuration, e.g. english or german; detected when absent.",
    )
    expires_at: Moment | None = Field(None, description="With a time zone; hidden from then on.")
    superseded_by_id: UUID | None = Field(
        None, description="The entry that takes this one's place; searches leave this one out."
    )
    is_verified: Annotated[bool, Field(strict=True)] = Field(
        False, description="Whether somebody has checked that it is so."
    )
    external_id: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_EXTERNAL_ID,
        description="Your own id for it: writing it again changes this entry.",
    )

    def given(self) -> dict[str, Any]:
        """Only the fields that the caller gave."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class NewEntry(EntryFields):
    """An entry to store."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "content": "Routes in vercel.json are matched from top to bottom; the catch-all comes last.",
                    "title": "Route order",
                    "tags": ["vercel", "routing"],
                    "entry_type": "lesson",
                }
            ]
        },
    )

    content: str = Field(
        min_length=1,
        max_length=MAX_CONTENT,
        description="The knowledge itself, understandable without anything else; 1 to 100,000 characters.",
    )


class EntryPatch(EntryFields):
    """Changes to an entry; what is left out stays as it is, null clears what may be empty."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"tags": ["vercel"]}]})

    content: str = Field("", min_length=1, max_length=MAX_CONTENT)


class BulkRequest(BaseModel):
    """1 to 1,000 entries; each is judged by itself."""

    model_config = ConfigDict(extra="forbid")

    entries: Annotated[
        list[Any],
        WithJsonSchema(
            {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_BULK,
                "items": {"$ref": "#/components/schemas/NewEntry"},
            }
        ),
    ] = Field(min_length=1, max_length=MAX_BULK)


class BulkResultModel(BaseModel):
    """What became of one entry of a bulk write."""

    index: int
    id: UUID | None
    status: Literal["created", "updated", "unchanged", "failed"]
    error: str | None = None


class BulkResponse(BaseModel):
    """One result for each entry, in the order of the request."""

    results: list[BulkResultModel]


class EntryModel(BaseModel):
    """A stored entry."""

    id: UUID
    entry_type: EntryType
    title: str | None
    content: str
    tags: list[str]
    roles: list[Role]
    confidence: float
    scope: Scope
    parent_id: UUID | None
    source_ids: list[UUID]
    superseded_by_id: UUID | None
    is_verified: bool
    asset_id: UUID | None
    asset_name: str | None
    chunk_index: int | None
    metadata: dict[str, Any]
    language: str
    expires_at: datetime | None
    external_id: str | None
    embedding_status: Literal["ready", "pending"]
    version: int
    created_at: datetime
    updated_at: datetime


class EntryList(BaseModel):
    """A page of entries, newest first."""

    items: list[EntryModel]
    next_cursor: str | None


class RelatedModel(EntryModel):
    """A related entry."""

    relationship: Literal["parent", "sibling", "source", "derived", "tag_overlap"]
    overlap_count: int | None = Field(description="Shared tags, for tag_overlap.")


class RelatedMetadata(BaseModel):
    """How many there are, and of which kinds."""

    total: int
    relationship_types: list[str]


class RelatedResponse(BaseModel):
    """Parent first, then siblings, sources, entries derived from it, and entries sharing two or more tags."""

    results: list[RelatedModel]
    metadata: RelatedMetadata
