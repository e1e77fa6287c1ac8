"""What admins read and set."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from app.knowledge.search.query import MAX_LIMIT
from app.knowledge.tenants.limits import GREATEST
from app.knowledge.vocabulary import EntryType, Fusion
from app.web.models.search import Number, WeightsModel

OwnLimit = Annotated[int, Field(strict=True, ge=1, le=GREATEST)] | None
AllowedLimit = Annotated[int, Field(strict=True, ge=0, le=GREATEST)] | None


class ModelInfo(BaseModel):
    """The tenant's embedding model."""

    provider: str
    name: str
    dimensions: int


class LimitUse(BaseModel):
    """How much of a limit is used, and the limit; null: there is none."""

    used: int
    limit: int | None


class OwnLimits(BaseModel):
    """A tenant's own limits: they count where they are below what the platform allows it. Null: none of its own."""

    model_config = ConfigDict(extra="forbid")

    requests_per_minute: OwnLimit = None
    concurrent_searches: OwnLimit = None
    entries: OwnLimit = None
    bytes: OwnLimit = None
    embedding_tokens_per_day: OwnLimit = None


class AllowedLimits(BaseModel):
    """What the platform allows a tenant in place of its defaults: 0 is no limit, null goes back to the default."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"entries": 100_000}]})

    requests_per_minute: AllowedLimit = None
    concurrent_searches: AllowedLimit = None
    entries: AllowedLimit = None
    bytes: AllowedLimit = None
    embedding_tokens_per_day: AllowedLimit = None


class TenantLimits(BaseModel):
    """What the platform allows a tenant in place of its defaults."""

    id: UUID
    limits: AllowedLimits


class TenantPatch(BaseModel):
    """Changes to a tenant; limits that are not named stay."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"limits": {"entries": 100_000, "bytes": None}}]}
    )

    limits: AllowedLimits


class ModelUse(ModelInfo):
    """An embedding model that the tenant has vectors of, or waits for."""

    is_current: bool = Field(description="Whether searches use it.")
    entries: int = Field(description="Entries that have vectors of it.")
    passages: int
    waiting: int = Field(description="Entries whose vectors are still to be made.")
    refused: int = Field(description="Entries that the provider refused five times; they are found by words.")
    index_state: Literal["none", "building", "ready"]


class BacklogModel(BaseModel):
    """Background work of one kind."""

    kind: str
    queued: int
    running: int
    oldest: datetime | None = Field(description="When the longest waiting was due.")


class HourModel(BaseModel):
    """The searches of one hour (UTC)."""

    hour: datetime
    searches: int
    fallbacks: int
    without_results: int
    p50_ms: int
    p95_ms: int


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
    searches_by_hour: list[HourModel] = Field(
        description="The last 24 hours; an hour without searches is left out, the first and the last are not whole."
    )
    models: list[ModelUse] = Field(description="The one that searches use comes first.")
    backlog: list[BacklogModel]
    limits: dict[str, LimitUse] = Field(
        description="By name. Requests and searches are those of the process that answers, the others exact."
    )


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
    purge_expired_after_days: int | None
    limits: OwnLimits


class SettingsPatch(BaseModel):
    """Changes to the tenant's settings; null goes back to the service's default."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"fusion": "score", "similarity_threshold": 0.25}]}
    )

    weights: WeightsModel | None = None
    type_weights: (
        Annotated[
            dict[str, Number],
            WithJsonSchema(
                {
                    "type": "object",
                    "propertyNames": {"enum": list(get_args(EntryType))},
                    "additionalProperties": {"type": "number", "minimum": 0, "maximum": 100},
                }
            ),
        ]
        | None
    ) = None
    similarity_threshold: Annotated[float, Field(strict=True, ge=0, le=1)] | None = None
    fusion: Fusion | None = None
    verified_boost: Annotated[float, Field(strict=True, ge=0, le=100)] | None = None
    keep_query_text: Annotated[bool, Field(strict=True)] | None = None
    default_limit: Annotated[int, Field(strict=True, ge=1, le=MAX_LIMIT)] | None = None
    max_limit: Annotated[int, Field(strict=True, ge=1, le=MAX_LIMIT)] | None = None
    purge_expired_after_days: Annotated[int, Field(strict=True, ge=0, le=36_500)] | None = None
    limits: OwnLimits | None = None

    def given(self) -> dict[str, Any]:
        """Only the fields that the caller gave, as plain values."""
        return self.model_dump(exclude_unset=True)


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
    judged: int = Field(0, description="Queries with feedback that both were measured by.")
    ndcg_old: float | None = Field(None, description="Mean nDCG@10 of those with the old model.")
    ndcg_new: float | None = Field(
        None, description="The same with the new one; what nobody judged counts as wrong."
    )


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
    """Who did what to which things, when, and how it ended."""

    id: UUID
    at: datetime
    actor: str
    action: str
    subject_ids: list[UUID]
    outcome: Literal["done", "refused"]
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
    """A page of tenants, oldest first."""

    items: list[TenantModel]
    next_cursor: str | None


class NewTenant(BaseModel):
    """A tenant to create."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"slug": "acme", "name": "Acme"}]}
    )

    slug: Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"})] = Field(
        description="Short name, unique: 1 to 63 of a-z, 0-9 and -, not beginning with -."
    )
    name: str | None = Field(None, min_length=1, max_length=200)
