"""Entries as they are written and read."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from app.knowledge.query import EntryType, Role, Scope

WritableType = Literal["fact", "summary", "template", "decision", "lesson", "temp_note", "insight"]
Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


class EntryFields(BaseModel):
    """What may be said of an entry; a field that is left out keeps its value, or takes its default."""

    model_config = ConfigDict(extra="forbid")

    entry_type: WritableType = "fact"
    title: str | None = Field(None, min_length=1, max_length=1000)
    tags: list[Annotated[str, Field(min_length=1, max_length=100)]] = Field(
        default_factory=list, max_length=50
    )
    roles: list[Role] = Field(["all"], min_length=1, max_length=4)
    confidence: Share = 1.0
    scope: Scope = "global"
    parent_id: UUID | None = None
    source_ids: list[UUID] = Field(default_factory=list, max_length=100)
    metadata: dict[str, Any] = Field(default_factory=dict)
    language: str | None = Field(
        None,
        description="A Postgres text-search configuration, e.g. english or german; detected when absent.",
    )
    expires_at: datetime | None = Field(None, description="With a time zone; hidden from then on.")
    superseded_by_id: UUID | None = None
    is_verified: Annotated[bool, Field(strict=True)] = False
    external_id: str | None = Field(None, min_length=1, max_length=512)

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

    content: str = Field(min_length=1, max_length=100_000)


class EntryPatch(EntryFields):
    """Changes to an entry; what is left out stays as it is, null clears what may be empty."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"tags": ["vercel"]}]})

    content: str = Field("", min_length=1, max_length=100_000)


class BulkRequest(BaseModel):
    """1 to 1,000 entries; each is judged by itself."""

    model_config = ConfigDict(extra="forbid")

    entries: Annotated[
        list[Any],
        WithJsonSchema(
            {
                "type": "array",
                "minItems": 1,
                "maxItems": 1000,
                "items": {"$ref": "#/components/schemas/NewEntry"},
            }
        ),
    ] = Field(min_length=1, max_length=1000)


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

    relationship: Literal["parent", "sibling", "tag_overlap"]
    overlap_count: int | None = Field(description="Shared tags, for tag_overlap.")


class RelatedMetadata(BaseModel):
    """How many there are, and of which kinds."""

    total: int
    relationship_types: list[str]


class RelatedResponse(BaseModel):
    """Parent first, then siblings, then entries sharing two or more tags."""

    results: list[RelatedModel]
    metadata: RelatedMetadata
