"""Responses of the asset endpoints."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import ConfigDict, Field

from app.contract.entries import MAX_TAG, MAX_TAGS, MAX_TITLE
from app.contract.principals import MAX_PRINCIPALS, Principal
from app.contract.vocabulary import Audience
from app.knowledge.ingestion.changes import AssetDraft
from app.web.models.requests import RequestBody


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
