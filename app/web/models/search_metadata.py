"""The metadata of a search's response."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel, Field

from app.contract.vocabulary import Degradation, Leg


class RelaxationModel(BaseModel):
    """Filters of a search without which entries match."""

    without: list[str] = Field(description="Names of filters, as in the request.", examples=[["tags"]])
    matches: int = Field(description="About how many entries match without them.", examples=[12])


class SearchMetadataModel(BaseModel):
    """Facts about the search; times in milliseconds."""

    search_id: UUID
    total: int = Field(
        description="Entries in the ranked list, before the limit; with `group_by`, the groups of them."
    )
    strong_match: bool = Field(
        description="Whether, judging by scores, a hit of the first page clearly answers the query."
    )
    fallback_mode: bool = Field(
        description="Whether the embedding provider failed and the search used keywords only."
    )
    search_modes_used: list[Leg] = Field(description="The legs that compared entries with the query.")
    degraded: list[Degradation] = Field(
        description="What keeps the answer from being complete; empty: nothing. `embedding_unavailable`: keyword search"
        " only. `quota_exhausted`: keyword search only, and no reranking. `embeddings_pending`: some entries have no"
        " vector yet and are found only by their words; see `pending`. `reranker_unavailable`: the hits are in the"
        " fused order. `ranking_truncated`: this page ends the ranked list, and more entries may match.",
        examples=[["embeddings_pending"]],
    )
    exact: bool = Field(
        description="Whether every entry that the filters admit was compared in each leg of `search_modes_used`."
        " If not, there may be better hits."
    )
    pending: int = Field(
        description="Entries that the filters admit and that have no vector yet; 0 in mode `keyword`. Where more than"
        " 2,000 entries of the tenant wait, it may be too low, and is at least 1.",
        examples=[0],
    )
    estimated_matches: int = Field(
        description="About how many entries match: those that reach the similarity threshold, or those with a word of"
        " the query, whichever are more; never less than `total`. A lower bound where `exact` is false.",
    )
    suggestions: list[str] = Field(
        description="If nothing was found: queries to try. With a filter, each finds an entry that passes it."
    )
    relaxations: list[RelaxationModel] = Field(
        description="If nothing was found because of the filters: what matches without each of them, or, if that is"
        " nothing, without all of them. Empty if the filters are not the cause."
    )
    reranked: bool = Field(
        description="Whether the reranker ordered the first candidates; scores then do not descend."
    )
    next_cursor: str | None
    query_time_ms: int = Field(description="Time from the request's arrival to the answer.")
    waiting_ms: int = Field(
        description="The part of `query_time_ms` in which the request waited for a turn: at the limits for simultaneous"
        " requests, for a database connection, or at the embedding model."
    )
    embedding_ms: int
    semantic_ms: int
    keyword_ms: int
    fusion_ms: int
    reranking_ms: int
