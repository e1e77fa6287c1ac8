"""The receipt of a search."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from app.contract.fields import Number, QueryText
from app.contract.search import Weights
from app.contract.vocabulary import Degradation, Fusion, Leg, Mode
from app.knowledge.administration.replay import Cause, DifferenceReason
from app.web.models.requests import RequestBody


class ReceiptModelName(BaseModel):
    """The embedding model of a search."""

    provider: str
    name: str
    dimensions: int


class RankedEntryModel(BaseModel):
    """A candidate of a search; ranks start at 1, and are null for a leg that did not find the entry."""

    id: UUID
    updated_at: datetime = Field(description="Identifies the version of the entry that was ranked.")
    semantic_rank: int | None
    similarity: float | None
    keyword_rank: int | None
    keyword_score: float | None
    score: float
    rerank_rank: int | None = Field(
        description="The rank by the reranker; null if it did not compare the entry."
    )
    rerank_score: float | None
    passages: int | None = Field(
        None,
        description="Only with `group_by`: the ranked passages of the asset, on the best of them; the best others"
        " follow, with 0.",
    )


class ReplayRequest(RequestBody):
    """What a receipt does not have."""

    query: QueryText | None = Field(None, description="Needed unless the tenant keeps query texts.")
    query_embedding: list[Number] | None = Field(
        None, min_length=1, max_length=4000, description="Needed if the search had one."
    )


class DifferenceModel(BaseModel):
    """A candidate whose place or score differs."""

    id: UUID
    then_rank: int | None
    now_rank: int | None
    then_score: float | None
    now_score: float | None
    reason: DifferenceReason = Field(
        description="`deleted`: neither the entry nor the version that was ranked is there. `changed`: the entry has"
        " another version, and the one that was ranked is not kept. `not_found`: it is there, and the search does not"
        " find it. `not_ranked_then`: only the replay has it. `other_score`, `other_rank`: both have it."
    )


class ReplayModel(BaseModel):
    """Both rankings of a search, and their differences."""

    search_id: UUID
    at: datetime
    as_of: datetime | None = Field(
        description="The time that the replay names. Null: no versions of it are kept, and it ran on what is valid now."
    )
    same: bool = Field(description="Whether candidates, order and scores are equal.")
    causes: list[Cause] = Field(description="What differs between then and now, and may explain differences.")
    settings: list[str] = Field(
        description="Settings that have changed since, which the receipt does not have."
    )
    differences: list[DifferenceModel]
    then: list[RankedEntryModel]
    now: list[RankedEntryModel]


class SearchReceiptModel(BaseModel):
    """The record of a search."""

    search_id: UUID
    subject: str = Field(description="The `sub` of the caller's token.")
    at: datetime
    result_count: int = Field(description="Hits on the first page.")
    query_time_ms: int
    mode: Mode
    exact: bool
    pending: int
    model: ReceiptModelName
    query: str | None = Field(None, description="Only if the tenant keeps query texts (`keep_query_text`).")
    rrf_k: int
    fusion: Fusion
    options: dict[str, Any] = Field(
        description="The other fields of the request, without those with their default."
    )
    ranking: list[RankedEntryModel] = Field(description="Every candidate, best first.")
    version: str = Field(description="The version of the service.")
    weights: Weights
    degraded: list[Degradation]
    fallback: bool
    strong_match: bool
    estimated_matches: int
    search_modes_used: list[Leg]
    similarity_threshold: float


class SearchLineModel(BaseModel):
    """A search in the list; its receipt has the rest."""

    id: UUID
    subject: str = Field(description="The `sub` of the caller's token.")
    at: datetime
    result_count: int = Field(description="Hits on the first page.")
    query_time_ms: int
    fallback: bool = Field(
        description="Whether only keyword search ran, because the provider was not available."
    )
    mode: Mode
    query: str | None = Field(
        description="The first 200 characters, only if the tenant keeps query texts (`keep_query_text`)."
    )


class SearchLineList(BaseModel):
    """A page of searches."""

    items: list[SearchLineModel]
    next_cursor: str | None
