"""Requests and responses of the quarantine endpoints."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import ConfigDict, Field

from app.knowledge.quarantine.service import MAX_RELEASED
from app.web.models.requests import RequestBody

Ids = Annotated[list[UUID], Field(max_length=MAX_RELEASED)]


class Release(RequestBody):
    """Entries to release from quarantine, and assets whose chunks are released; 1 to 1,000 ids together."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"entry_ids": ["0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11"]}],
            "anyOf": [
                {"required": [name], "properties": {name: {"minItems": 1}}}
                for name in ("entry_ids", "asset_ids")
            ],
        }
    )

    entry_ids: Ids = Field(default_factory=list)
    asset_ids: Ids = Field(default_factory=list)
