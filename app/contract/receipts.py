"""Receipts of searches, their replay, and feedback on hits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from app.contract.fields import QueryText, VectorNumbers, YesOrNo
from app.contract.models import ModelInfo
from app.contract.search import Weights
from app.contract.validation import Described, request
from app.contract.vocabulary import Degradation, EntryType, Fusion, Leg, Mode, WeightsOrigin


@dataclass(frozen=True, slots=True)
class RankedEntry(Described):
    """A candidate of a search; ranks start at 1, and are null for a leg that did not find the entry."""

    id: UUID
    updated_at: Annotated[datetime, Field(description="Identifies the version of the entry that was ranked.")]
    semantic_rank: int | None
    similarity: float | None
    keyword_rank: int | None
    keyword_score: float | None
    score: float
    rerank_rank: int | None
    """The rank by the reranker; null if it did not compare the entry."""
    rerank_score: float | None
    duplicates: int
    """Ranked near-duplicates of it, which are not listed."""
    passages: int | None = None
    """Only with `group_by`: the ranked passages of the asset, on the best of them; the best others follow, with 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt(Described):
    """What a search did: its settings, its model, and the ranks of every candidate."""

    mode: Mode
    exact: bool
    pending: int
    model: ModelInfo
    query: Annotated[str | None, Field(description="Only if the tenant keeps query texts (`keep_query_text`).")] = None
    rrf_k: int
    fusion: Fusion
    options: Mapping[str, Any]
    """The other fields of the request, without those with their default; `query_embedding` is true if it had one."""
    ranking: Annotated[Sequence[RankedEntry], Field(description="Every candidate, best first.")]
    version: Annotated[str, Field(description="The version of the service.")]
    weights: Weights
    weights_from: WeightsOrigin
    degraded: Sequence[Degradation]
    fallback: bool
    strong_match: bool
    estimated_matches: int
    search_modes_used: Sequence[Leg]
    similarity_threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchReceipt(Receipt):
    """The record of a search."""

    search_id: UUID
    subject: Annotated[str, Field(description="The `sub` of the caller's token.")]
    at: datetime
    result_count: Annotated[int, Field(description="Hits on the first page.")]
    query_time_ms: int


@dataclass(frozen=True, slots=True)
class SearchLine(Described):
    """A search in the list; its receipt has the rest."""

    id: UUID
    subject: Annotated[str, Field(description="The `sub` of the caller's token.")]
    at: datetime
    result_count: Annotated[int, Field(description="Hits on the first page.")]
    query_time_ms: int
    fallback: bool
    """Whether only keyword search ran, because the provider was not available."""
    mode: Mode
    query: str | None
    """The first 200 characters, only if the tenant keeps query texts (`keep_query_text`)."""


@request
class ReplayRequest:
    """What a receipt does not have."""

    query: Annotated[QueryText | None, Field(description="Needed if the receipt does not have it.")] = None
    query_embedding: Annotated[VectorNumbers | None, Field(description="Needed if the search had one.")] = None


DifferenceReason = Literal["deleted", "changed", "not_found", "not_ranked_then", "other_score", "other_rank"]
Cause = Literal[
    "versions_not_kept", "model_changed", "settings_changed", "service_changed", "degraded_then", "degraded_now"
]


@dataclass(frozen=True, slots=True)
class Difference(Described):
    """A candidate whose place or score differs."""

    id: UUID
    then_rank: int | None
    now_rank: int | None
    then_score: float | None
    now_score: float | None
    reason: DifferenceReason
    """`deleted`: neither the entry nor the version that was ranked is there. `changed`: the entry has another version,
    and the one that was ranked is not kept. `not_found`: it is there, and the search does not find it.
    `not_ranked_then`: only the replay has it. `other_score`, `other_rank`: both have it."""


@dataclass(frozen=True, slots=True)
class Replay(Described):
    """Both rankings of a search, and their differences."""

    search_id: UUID
    at: datetime
    as_of: datetime | None
    """The time that the replay names. Null: no versions of it are kept, and it ran on what is valid now."""
    same: Annotated[bool, Field(description="Whether candidates, order and scores are equal.")]
    causes: Sequence[Cause]
    """What differs between then and now, and may explain differences."""
    settings: Sequence[str]
    """Settings that have changed since, which the receipt does not have."""
    differences: Sequence[Difference]
    then: Sequence[RankedEntry]
    now: Sequence[RankedEntry]


@request(
    schema={
        "examples": [
            {
                "search_id": "0198c5a2-7d1e-7a60-8d0b-3d5f0a4c9e11",
                "entry_id": "0198c5a2-7d1e-7a60-8d0b-5b1f6a2d7c33",
                "relevant": True,
            }
        ]
    }
)
class NewFeedback:
    """Whether a hit was useful to the caller."""

    search_id: Annotated[UUID, Field(description="The `metadata.search_id` of one of the caller's searches.")]
    entry_id: Annotated[UUID, Field(description="A hit of that search.")]
    relevant: YesOrNo


@dataclass(frozen=True, slots=True)
class Feedback:
    """The caller's feedback on a hit."""

    search_id: UUID
    entry_id: UUID
    relevant: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class EmptySearch:
    """A query that found nothing."""

    query: str
    searches: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class DislikedEntry:
    """An entry that callers marked as not relevant."""

    entry_id: UUID
    title: str | None
    entry_type: EntryType
    not_relevant: int
    relevant: int
    last_at: datetime
    queries: Sequence[str]


@dataclass(frozen=True, slots=True)
class FeedbackReport(Described):
    """Searches without results and disliked hits of the last days."""

    days: int
    queries_kept: bool
    """Whether the tenant keeps query texts (`keep_query_text`); if not, the report has no queries."""
    relevant: int
    not_relevant: int
    searches_without_results: int
    empty_searches: Annotated[Sequence[EmptySearch], Field(description="Most frequent first, at most 50.")]
    disliked: Annotated[Sequence[DislikedEntry], Field(description="Most disliked first, at most 50.")]
