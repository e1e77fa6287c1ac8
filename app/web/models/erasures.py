"""Requests and responses of the erasure endpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.web.models.requests import RequestBody


class NewErasure(RequestBody):
    """What to erase: exactly one of the fields."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"entry_id": "0198c5a2-7d1e-7a60-8d0b-5b1f6a2d7c33"}],
            "oneOf": [
                {"required": [name], "properties": {name: {"type": "string"}}}
                for name in ("asset_id", "entry_id", "subject")
            ],
        }
    )

    asset_id: UUID | None = Field(None, description="An asset, with its chunks.")
    entry_id: UUID | None = Field(None, description="An entry that is not a chunk.")
    subject: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        None,
        description="The `sub` of a principal's tokens: what it created, searched, saved and judged. Revoke its tokens"
        " first.",
    )


class PlaceModel(BaseModel):
    """A table of the tenant."""

    place: str
    removed: int = Field(description="Rows removed or, in receipts and the audit trail, changed.")
    found: int | None = Field(
        description="Rows that the last look found, in a later transaction; null before the first look."
    )


class DependentModel(BaseModel):
    """An item that depends on an erased one; it was not erased.

    `child`: by its `parent_id`. `superseded`: the erased entry superseded it, and searches find it again. `derived`: by
    its `source_ids`. `same_content`, `same_bytes`: a copy. `filter`: a saved search that names the asset. `changed`:
    the subject changed what another created. An `entry_version` is a former version of the entry `id`, and
    `asset_versions` are former versions of the chunks of the asset `id`: with a text that was erased, or valid after
    the subject had changed the item. The entry or asset may be deleted.
    """

    relation: Literal["child", "superseded", "derived", "same_content", "same_bytes", "filter", "changed"]
    kind: Literal["asset", "entry", "saved_search", "entry_version", "asset_versions"]
    id: UUID
    version: int | None = Field(None, description="Of an `entry_version`.")


class RemainderModel(BaseModel):
    """What the erasure leaves by design."""

    place: str
    reason: str


class ErasureModel(BaseModel):
    """The receipt of an erasure."""

    id: UUID
    kind: Literal["asset", "entry", "subject"]
    asset_id: UUID | None
    entry_id: UUID | None
    pseudonym: str | None = Field(description="What replaces the subject in the audit trail.")
    requested_by: str
    state: Literal["running", "erased", "done"] = Field(
        description="`erased` after a look that found nothing, `done` after a second one, about a minute later."
    )
    created_at: datetime
    erased_at: datetime | None
    checked_at: datetime | None = Field(description="The time of the last look.")
    places: list[PlaceModel]
    derived: list[DependentModel] = Field(description="Named for decision, at most 1,000.")
    derived_total: int
    remains: list[RemainderModel]


class ErasureList(BaseModel):
    """A page of erasures, newest first."""

    items: list[ErasureModel]
    next_cursor: str | None
