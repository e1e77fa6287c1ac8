"""What admins read and set."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
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


class NewModelChange(BaseModel):
    """A model to move to. What is left out of provider, model and dimensions, the only one that fits has."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"provider": "openai", "model": "text-embedding-3-small", "rate": 600}]
        },
    )

    provider: Annotated[str, Field(min_length=1, max_length=50)] | None = None
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None, description="A model that the operator has registered (`knowledge model add`) and serves."
    )
    dimensions: Annotated[int, Field(strict=True, ge=1, le=4000)] | None = None
    rate: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] | None = Field(
        None, description="Entries to embed a minute; null: as many as the provider takes."
    )
    switch_at_overlap: Annotated[float, Field(strict=True, ge=0, le=1)] | None = Field(
        0.0,
        description="Switch by itself when the searches of both models have at least this share of their first ten"
        " hits in common; null: wait for POST /admin/reembed/switch.",
    )


class ComparisonModel(BaseModel):
    """What searches with both models have in common, over some of the tenant's own queries, else titles of entries."""

    queries: int
    source: Literal["queries", "titles"]
    overlap: float = Field(description="Mean share of the first ten hits that both bring.")
    semantic_overlap: float = Field(description="The same of the semantic leg alone.")
    same: int = Field(description="Queries whose first ten hits are the same.")
    empty: int = Field(description="Queries for which only the old model's semantic leg brings anything.")


class ModelChangeModel(BaseModel):
    """A change of model, and how far it has come."""

    state: Literal["filling", "ready", "switched", "dropping"]
    old: ModelInfo
    new: ModelInfo
    rate: int | None
    switch_at_overlap: float | None
    entries: int
    waiting: int = Field(
        description="Entries whose vectors of the model that is not in use are still to be made."
    )
    refused: int = Field(description="Entries that the provider of that model refuses.")
    progress: float
    served: bool = Field(
        description="Whether this service has a provider of that model; the work waits if not."
    )
    comparison: ComparisonModel | None
    started_at: datetime
    ready_at: datetime | None
    switched_at: datetime | None


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
