"""Responses of the asset endpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.contract.entries import MAX_TAG, MAX_TAGS, MAX_TITLE
from app.contract.principals import MAX_PRINCIPALS, Principal
from app.contract.vocabulary import Audience
from app.knowledge.ingestion.changes import AssetDraft
from app.web.models.requests import RequestBody


class AssetModel(BaseModel):
    """An ingested file."""

    id: UUID
    source: str | None = Field(description="The source that the asset belongs to.")
    external_id: str | None = Field(
        description="Unique among the assets without a source, and within each source."
    )
    name: str
    media_type: str
    byte_size: int
    title: str | None = Field(description="The title that a caller gave, else the one of the file.")
    total_pages: int | None
    pages_without_text: list[int] = Field(
        description="Numbers of pages that show something and have no text, as scanned pages do. With the extra `ocr`"
        " their text is recognised, and those are listed for which there was no time."
    )
    tags: list[str]
    roles: list[Audience]
    metadata: dict[str, Any]
    readers: list[str] | None = Field(
        description="Who may read the asset and its chunks; null: all readers of the tenant."
    )
    writers: list[str] | None = Field(
        description="Who of them may change the asset, with the role creator; null: all of them."
    )
    status: Literal["pending", "processing", "indexed", "failed"]
    error: str | None
    progress: float
    generation: int = Field(description="Counts the versions of the bytes.")
    chunks: int
    flags: dict[str, int] = Field(description="Chunks with each flag of suspicious content.")
    quarantined_chunks: int = Field(
        description="Chunks that searches do not find because of their flags, until an admin releases them."
    )
    duplicate_of: UUID | None = Field(
        description="The oldest asset with the same bytes, if it is another one. Searches return a text that both have"
        " once, under the asset that was indexed first among those that the filters admit."
    )
    version: int = Field(description="Counts all changes by callers; the ETag.")
    created_at: datetime
    updated_at: datetime


class AssetPatch(RequestBody):
    """Changes to an asset. Omitted fields are unchanged."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"tags": ["handbook"]}]})

    title: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_TITLE,
        description="The title of the asset and its chunks; null restores the title of the file.",
    )
    tags: list[Annotated[str, Field(min_length=1, max_length=MAX_TAG)]] = Field(
        default_factory=list,
        max_length=MAX_TAGS,
        description="Replaces the tags of the asset and its chunks.",
    )
    roles: list[Audience] = Field(
        ["all"],
        min_length=1,
        max_length=len(get_args(Audience)),
        description="The audience of the asset and its chunks; not a permission.",
    )
    metadata: dict[str, Any] = Field(
        default_factory=dict,
        description="Replaces the metadata of the asset and its chunks; a chunk keeps its position.",
    )

    readers: list[Principal] | None = Field(
        None,
        min_length=1,
        max_length=MAX_PRINCIPALS,
        description="Who may read the asset and its chunks, from the answer on; you are one of them. Null: all readers"
        " of the tenant. An asset of a source has those of the source.",
    )
    writers: list[Principal] | None = Field(
        None,
        min_length=1,
        max_length=MAX_PRINCIPALS,
        description="Who of its readers with the role creator may change the asset; you are one of them. Null: all of"
        " them. An asset of a source has those of the source.",
    )

    def draft(self) -> AssetDraft:
        """The fields that the caller sent."""
        return AssetDraft(**{name: getattr(self, name) for name in self.model_fields_set})


class AssetList(BaseModel):
    """A page of assets."""

    items: list[AssetModel]
    next_cursor: str | None
