"""What a search answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked entry and how the search came to it.

    `similarity` is a cosine, None where the semantic leg did not find the entry; `keyword_score` is BM25, None
    where the keyword leg did not; `snippet` is plain text of at most 240 characters.
    """

    id: UUID
    entry_type: str
    title: str | None
    content: str
    tags: Sequence[str]
    roles: Sequence[str]
    confidence: float
    scope: str
    parent_id: UUID | None
    source_ids: Sequence[UUID]
    superseded_by_id: UUID | None
    is_verified: bool
    asset_id: UUID | None
    asset_name: str | None
    chunk_index: int | None
    external_id: str | None
    metadata: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime
    score: float
    similarity: float | None
    keyword_score: float | None
    sources: Sequence[str]
    snippet: str
    matched_terms: Sequence[str]


@dataclass(frozen=True, slots=True)
class SearchMetadata:
    """How the search went; times in milliseconds. `strong_match`: whether a hit of the first page is a clear one."""

    search_id: UUID
    total: int
    strong_match: bool
    fallback_mode: bool
    search_modes_used: Sequence[str]
    degraded: Sequence[str]
    exact: bool
    estimated_matches: int
    suggestions: Sequence[str]
    next_cursor: str | None
    query_time_ms: int
    embedding_ms: int
    semantic_ms: int
    keyword_ms: int
    fusion_ms: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits, best first; iterating over the result gives them."""

    results: Sequence[Hit]
    metadata: SearchMetadata
    debug_info: Mapping[str, Any] | None = field(default=None)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: int) -> Hit:
        return self.results[index]
