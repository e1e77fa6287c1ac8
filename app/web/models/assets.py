"""Responses of the asset endpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel

from app.knowledge.vocabulary import Audience


class AssetModel(BaseModel):
    """An ingested file."""

    id: UUID
    external_id: str | None
    name: str
    media_type: str
    byte_size: int
    title: str | None
    total_pages: int | None
    tags: list[str]
    roles: list[Audience]
    metadata: dict[str, Any]
    status: Literal["pending", "processing", "indexed", "failed"]
    error: str | None
    progress: float
    generation: int
    chunks: int
    created_at: datetime
    updated_at: datetime


class AssetList(BaseModel):
    """A page of assets, newest first."""

    items: list[AssetModel]
    next_cursor: str | None
