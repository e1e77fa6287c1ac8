"""Requests and responses of the erasure endpoints."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import ConfigDict, Field

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
