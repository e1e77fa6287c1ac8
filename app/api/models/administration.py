"""What admins read and set."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.api.models.search import WeightsModel
from app.knowledge.query import Fusion


class ModelInfo(BaseModel):
    """The tenant's embedding model."""

    provider: str
    name: str
    dimensions: int


class Stats(BaseModel):
    """Counts of the caller's own tenant."""

    entries: int
    entries_by_type: dict[str, int]
    entries_by_language: dict[str, int]
    assets_by_status: dict[str, int]
    pending_embeddings: int
    jobs: int
    model: ModelInfo
    passages: int
    indexed: bool
    searches_24h: int
    searches_without_results_24h: int
    fallback_rate_24h: float


class SettingsModel(BaseModel):
    """The tenant's settings, defaults filled in."""

    weights: WeightsModel | None
    type_weights: dict[str, float]
    similarity_threshold: float | None
    fusion: Fusion
    verified_boost: float
    keep_query_text: bool
    default_limit: int | None
    max_limit: int | None


class SettingsPatch(BaseModel):
    """Changes to the tenant's settings; null goes back to the service's default."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"fusion": "score", "similarity_threshold": 0.25}]}
    )

    weights: WeightsModel | None = None
    type_weights: dict[str, float] | None = None
    similarity_threshold: Annotated[float, Field(strict=True, ge=0, le=1)] | None = None
    fusion: Fusion | None = None
    verified_boost: Annotated[float, Field(strict=True, ge=0, le=100)] | None = None
    keep_query_text: Annotated[bool, Field(strict=True)] | None = None
    default_limit: Annotated[int, Field(strict=True, ge=1, le=100)] | None = None
    max_limit: Annotated[int, Field(strict=True, ge=1, le=100)] | None = None

    def given(self) -> dict[str, Any]:
        """Only the fields that the caller gave, as plain values."""
        return self.model_dump(include=self.model_fields_set)


class AuditModel(BaseModel):
    """Who did what to which things, and when."""

    id: UUID
    at: datetime
    actor: str
    action: str
    subject_ids: list[UUID]
    detail: dict[str, Any]


class AuditList(BaseModel):
    """A page of the audit trail, newest first."""

    items: list[AuditModel]
    next_cursor: str | None


class TenantModel(BaseModel):
    """A tenant."""

    id: UUID
    slug: str
    name: str
    created_at: datetime


class TenantList(BaseModel):
    """All tenants; there is no further page."""

    items: list[TenantModel]
    next_cursor: None = None


class NewTenant(BaseModel):
    """A tenant to create."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"slug": "acme", "name": "Acme"}]}
    )

    slug: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", description="Short name, unique.")
    name: str | None = Field(None, min_length=1, max_length=200)
