"""Requests and responses of the administration endpoints."""

from __future__ import annotations

from typing import Annotated, Any, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from app.contract.fields import Number
from app.contract.search import Weights
from app.contract.vocabulary import MAX_LIMIT, EntryType, Fusion, SuspiciousContent
from app.knowledge.tenants.settings import GREATEST, MAX_FACTOR, MAX_KEPT_DAYS, MAX_PURGE_DAYS, MIN_FACTOR
from app.web.models.requests import RequestBody

OwnLimit = Annotated[int, Field(strict=True, ge=1, le=GREATEST)] | None
AllowedLimit = Annotated[int, Field(strict=True, ge=0, le=GREATEST)] | None


class OwnLimits(RequestBody):
    """A tenant's own limits. They apply where they are lower than the platform's limits. Null means not set."""

    requests_per_minute: OwnLimit = None
    concurrent_searches: OwnLimit = None
    entries: OwnLimit = None
    bytes: OwnLimit = None
    receipts: OwnLimit = None
    embedding_tokens_per_day: OwnLimit = None


class AllowedLimits(RequestBody):
    """Limits that the platform sets for one tenant. 0 means unlimited; null restores the platform's default."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"entries": 100_000}]})

    requests_per_minute: AllowedLimit = None
    concurrent_searches: AllowedLimit = None
    entries: AllowedLimit = None
    bytes: AllowedLimit = None
    receipts: AllowedLimit = None
    embedding_tokens_per_day: AllowedLimit = None


class TenantLimits(BaseModel):
    """The limits that the platform has set for a tenant."""

    id: UUID
    limits: AllowedLimits


class TenantPatch(RequestBody):
    """Changes to a tenant. Omitted limits are unchanged."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"limits": {"entries": 100_000, "bytes": None}}]}
    )

    limits: AllowedLimits


class TunedWeightsModel(BaseModel):
    """Weights that the service has found by feedback."""

    fusion: Fusion = Field(description="The fusion that they are for.")
    weights: Weights
    former: Weights = Field(description="The weights that were in force before.")
    queries: int = Field(description="Judged queries.")
    gain: float = Field(description="Gain in nDCG@10 over the former weights.")
    low: float = Field(description="Lower bound of the 99 % interval of the gain.")
    high: float


class SettingsModel(BaseModel):
    """The tenant's settings, including defaults."""

    weights: Weights | None
    type_weights: dict[str, float]
    similarity_threshold: float | None
    fusion: Fusion
    verified_boost: float
    rerank: bool | None = Field(
        description="false: no text of the tenant is sent to the reranker. Otherwise searches are reranked."
    )
    keep_query_text: bool
    default_limit: int | None
    max_limit: int | None
    purge_expired_after_days: int | None
    keep_versions_days: int = Field(description="Days for which former versions of entries are kept.")
    suspicious_content: SuspiciousContent = Field(
        description="What happens to texts with invisible characters, secrets or instructions to language models:"
        " keep: nothing; flag: `metadata.flags` names what was found; quarantine: searches do not find them either,"
        " until an admin releases them."
    )
    limits: OwnLimits
    auto_tune: bool = Field(description="Whether `tuned` applies, and new weights may replace it.")
    tuned: TunedWeightsModel | None = Field(description="In force with `auto_tune`, without `weights`.")


class SettingsPatch(RequestBody):
    """Changes to the tenant's settings. Null restores the service's default."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"similarity_threshold": 0.25}]})

    weights: Weights | None = None
    type_weights: (
        Annotated[
            dict[str, Number],
            WithJsonSchema(
                {
                    "type": "object",
                    "propertyNames": {"enum": list(get_args(EntryType))},
                    "additionalProperties": {"type": "number", "minimum": MIN_FACTOR, "maximum": MAX_FACTOR},
                }
            ),
        ]
        | None
    ) = None
    similarity_threshold: Annotated[float, Field(strict=True, ge=0, le=1)] | None = None
    fusion: Fusion | None = None
    verified_boost: Annotated[float, Field(strict=True, ge=MIN_FACTOR, le=MAX_FACTOR)] | None = None
    rerank: Annotated[bool, Field(strict=True)] | None = None
    keep_query_text: Annotated[bool, Field(strict=True)] | None = None
    default_limit: Annotated[int, Field(strict=True, ge=1, le=MAX_LIMIT)] | None = None
    max_limit: Annotated[int, Field(strict=True, ge=1, le=MAX_LIMIT)] | None = None
    purge_expired_after_days: Annotated[int, Field(strict=True, ge=0, le=MAX_PURGE_DAYS)] | None = None
    keep_versions_days: Annotated[int, Field(strict=True, ge=0, le=MAX_KEPT_DAYS)] | None = None
    suspicious_content: SuspiciousContent | None = Field(
        None, description="Applies to what is written from now on."
    )
    limits: OwnLimits | None = None
    auto_tune: Annotated[bool, Field(strict=True)] | None = Field(None, description="False undoes `tuned`.")

    def given(self) -> dict[str, Any]:
        """Return only the fields that the caller set, as plain values."""
        return self.model_dump(exclude_unset=True)


class NewTenant(RequestBody):
    """A tenant to create."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"slug": "acme", "name": "Acme"}]})

    slug: Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"})] = Field(
        description="Unique short name: 1 to 63 characters of a-z, 0-9 and -, not starting with -."
    )
    name: str | None = Field(None, min_length=1, max_length=200)
