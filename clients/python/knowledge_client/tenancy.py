"""Answers about a tenant and the platform, for administrators. Figures that few callers read are plain objects."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from knowledge_client.parts import Answer


class ModelName(Answer):
    """An embedding model."""

    provider: str
    name: str
    dimensions: int


class LimitUse(Answer):
    """The use of a limit, and the limit (None: unlimited)."""

    used: int
    limit: int | None


class Statistics(Answer):
    """Statistics of the tenant."""

    entries: int
    entries_by_type: dict[str, int]
    entries_by_language: dict[str, int]
    assets_by_status: dict[str, int]
    pending_embeddings: int
    flagged_entries: dict[str, int]
    quarantined_entries: int
    jobs: int
    model: ModelName
    passages: int
    indexed: bool
    searches_24h: int
    searches_without_results_24h: int
    fallback_rate_24h: float
    estimates: dict[str, Any]
    searches_by_hour: list[dict[str, Any]]
    models: list[dict[str, Any]]
    backlog: list[dict[str, Any]]
    limits: dict[str, LimitUse]
    records: dict[str, dict[str, Any]]


class TenantSettings(Answer):
    """The tenant's settings; None means the service's default."""

    weights: dict[str, float] | None
    type_weights: dict[str, float]
    similarity_threshold: float | None
    fusion: str
    verified_boost: float
    rerank: bool | None
    keep_query_text: bool
    default_limit: int | None
    max_limit: int | None
    purge_expired_after_days: int | None
    keep_versions_days: int
    suspicious_content: str
    limits: dict[str, int | None]
    auto_tune: bool
    tuned: dict[str, Any] | None


class AuditRecord(Answer):
    """An action: its actor, subjects, time and outcome, `done` or `refused`."""

    id: UUID
    at: datetime
    actor: str
    action: str
    subject_ids: list[UUID]
    outcome: str
    detail: dict[str, Any]


class AuditPage(Answer):
    """A page of the audit trail."""

    items: list[AuditRecord]
    next_cursor: str | None


class SearchReceipt(Answer):
    """The record of a search; `query` only if the tenant keeps query texts."""

    search_id: UUID
    subject: str
    at: datetime
    result_count: int
    query_time_ms: int
    mode: str
    exact: bool
    pending: int
    model: dict[str, Any]
    query: str | None = None
    rrf_k: int
    fusion: str
    options: dict[str, Any]
    ranking: list[dict[str, Any]]
    version: str
    weights: dict[str, float]
    degraded: list[str]
    fallback: bool
    strong_match: bool
    estimated_matches: int
    search_modes_used: list[str]
    similarity_threshold: float


class EmptySearch(Answer):
    """A query that found nothing."""

    query: str
    searches: int
    last_at: datetime


class DislikedEntry(Answer):
    """An entry that callers marked as not relevant."""

    entry_id: UUID
    title: str | None
    entry_type: str
    not_relevant: int
    relevant: int
    last_at: datetime
    queries: list[str]


class FeedbackReport(Answer):
    """Searches without results and disliked hits of the last `days` days."""

    days: int
    queries_kept: bool
    relevant: int
    not_relevant: int
    searches_without_results: int
    empty_searches: list[EmptySearch]
    disliked: list[DislikedEntry]


class RevokedToken(Answer):
    """A token that is refused until it expires."""

    token_id: str
    revoked_at: datetime
    expires_at: datetime


class RevokedTokenPage(Answer):
    """A page of revoked tokens."""

    items: list[RevokedToken]
    next_cursor: str | None


class ModelDecision(Answer):
    """Whether the service switches to the new model by itself, and why."""

    switch: str
    basis: str | None
    reason: str


class ModelChange(Answer):
    """A change of the embedding model, or a rebuild of its vectors: `progress` is 0 to 1."""

    state: str
    old: ModelName
    new: ModelName
    rebuild: bool
    rate: int | None
    switch_at_overlap: float | None
    entries: int
    waiting: int
    refused: int
    progress: float
    served: bool
    failure: str | None
    comparison: dict[str, Any] | None
    decision: ModelDecision
    started_at: datetime
    ready_at: datetime | None
    switched_at: datetime | None


class Tenant(Answer):
    """A tenant of the platform."""

    id: UUID
    slug: str
    name: str
    created_at: datetime


class TenantPage(Answer):
    """A page of tenants."""

    items: list[Tenant]
    next_cursor: str | None


class TenantLimits(Answer):
    """The limits that the platform has set for a tenant; None: the default."""

    id: UUID
    limits: dict[str, int | None]
