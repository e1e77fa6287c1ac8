"""Answers of the service. Fields that this version does not know are kept in `model_extra`."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from knowledge_client.parts import Answer, Facet, HitOrigin, PassageGroup, Validity


class _Knowledge(Answer):
    """Fields shared by entries and hits."""

    id: UUID
    entry_type: str
    title: str | None
    content: str
    tags: list[str]
    roles: list[str]
    confidence: float
    scope: str
    parent_id: UUID | None
    source_ids: list[UUID]
    superseded_by_id: UUID | None
    is_verified: bool
    asset_id: UUID | None
    asset_name: str | None
    chunk_index: int | None
    external_id: str | None
    metadata: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class Entry(_Knowledge):
    """A stored entry; `embedding_status` is `ready` or `pending`, `version` is the value for `if_version`."""

    language: str
    expires_at: datetime | None
    readers: list[str] | None
    writers: list[str] | None
    quarantined: bool
    embedding_status: str
    version: int


class RelatedEntry(Entry):
    """An entry related to the given one; `overlap_count` is the number of shared tags, for `tag_overlap`."""

    relationship: str
    overlap_count: int | None


class Hit(_Knowledge):
    """A ranked entry; `similarity` is a cosine, `keyword_score` BM25, each None if that leg did not find it."""

    score: float
    similarity: float | None
    keyword_score: float | None
    sources: list[str]
    snippet: str
    snippet_start: int
    snippet_end: int
    matched_terms: list[str]
    group: PassageGroup | None = None
    validity: Validity | None = None
    origin: HitOrigin | None = None


class Relaxation(Answer):
    """About how many entries match without these filters of a search that found nothing."""

    without: list[str]
    matches: int


class SearchMetadata(Answer):
    """Facts about a search; times in milliseconds."""

    search_id: UUID
    total: int
    strong_match: bool
    fallback_mode: bool
    search_modes_used: list[str]
    degraded: list[str]
    exact: bool
    pending: int
    estimated_matches: int
    suggestions: list[str]
    relaxations: list[Relaxation]
    reranked: bool
    next_cursor: str | None
    query_time_ms: int
    waiting_ms: int
    embedding_ms: int
    semantic_ms: int
    keyword_ms: int
    fusion_ms: int
    reranking_ms: int


class SearchResult(Answer):
    """Hits, best first."""

    results: list[Hit]
    metadata: SearchMetadata
    debug_info: dict[str, Any] | None
    facets: dict[str, Facet] | None = None


class FieldProblem(Answer):
    """One invalid field."""

    field: str
    message: str


class Problem(Answer):
    """A refusal or failure, as RFC 9457 describes it; for 429, `limit` names the limit that is used up.

    `type` tells problems apart, for example `/problems/stale-etag`; `existing_id` is the other entry of a conflict,
    `deletions` and `assets` the numbers of a manifest that would delete too many assets.
    """

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    request_id: str | None = None
    errors: list[FieldProblem] | None = None
    limit: str | None = None
    existing_id: UUID | None = None
    deletions: int | None = None
    assets: int | None = None


class SearchOutcome(Answer):
    """The outcome of one search of a batch: its result, or the problem that it would have got alone."""

    index: int
    status: int
    result: SearchResult | None
    error: Problem | None


class Reason(Answer):
    """One reason why an entry is missing from a search's results."""

    stage: str
    detail: str


class WhyNot(Answer):
    """Whether an entry is among the results, its rank among the candidates, and the reasons if it is missing."""

    entry_id: UUID
    in_results: bool
    rank: int | None
    reasons: list[Reason]
    query_time_ms: int
    waiting_ms: int


class BulkResult(Answer):
    """The outcome of one entry of a bulk write: `created`, `updated`, `unchanged`, or `failed` with an `error`."""

    index: int
    id: UUID | None
    status: str
    error: str | None = None


class Asset(Answer):
    """An ingested file; `status` is `pending`, `processing`, `indexed` or `failed`, `progress` is between 0 and 1."""

    id: UUID
    source: str | None
    external_id: str | None
    name: str
    media_type: str
    byte_size: int
    title: str | None
    total_pages: int | None
    pages_without_text: list[int]
    tags: list[str]
    roles: list[str]
    metadata: dict[str, Any]
    readers: list[str] | None
    writers: list[str] | None
    status: str
    error: str | None
    progress: float
    generation: int
    chunks: int
    flags: dict[str, int]
    quarantined_chunks: int
    duplicate_of: UUID | None
    version: int
    created_at: datetime
    updated_at: datetime


class SavedSearch(Answer):
    """A search that the caller saved under a name."""

    id: UUID
    name: str
    request: dict[str, Any]
    subscribed: bool
    created_at: datetime


class Subscription(Answer):
    """The webhook of a saved search and the state of its deliveries; `secret` is shown only on creation."""

    saved_search_id: UUID
    url: str
    state: str
    confirmation: str
    confirmed_at: datetime | None
    rights_until: datetime
    waiting: int
    failures: int
    failing_since: datetime | None
    last_error: str | None
    last_delivered_at: datetime | None
    created_at: datetime
    secret: str | None = None


class Feedback(Answer):
    """The caller's feedback on a hit."""

    search_id: UUID
    entry_id: UUID
    relevant: bool
    at: datetime


class TagCount(Answer):
    """A tag, and the number of entries that a search with it finds."""

    tag: str
    count: int


class TagPage(Answer):
    """A page of tags."""

    items: list[TagCount]
    next_cursor: str | None


class EntryPage(Answer):
    """A page of entries."""

    items: list[Entry]
    next_cursor: str | None


class AssetPage(Answer):
    """A page of assets."""

    items: list[Asset]
    next_cursor: str | None


class SavedSearchPage(Answer):
    """A page of the caller's saved searches, newest first."""

    items: list[SavedSearch]
    next_cursor: str | None


class _RelatedAnswer(Answer):
    results: list[RelatedEntry]


class _BulkAnswer(Answer):
    results: list[BulkResult]


class _BatchAnswer(Answer):
    results: list[SearchOutcome]
