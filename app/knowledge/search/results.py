"""What a search answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.queries.search.hits import StoredEntry
from app.db.queries.search.receipts import ModelName
from app.knowledge.search.ranking.fusion import Candidate
from app.knowledge.vocabulary import Leg, Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit(StoredEntry):
    """A ranked entry and how the search came to it.

    `similarity` is a cosine, None where the semantic leg did not find the entry; `keyword_score` is BM25, None
    where the keyword leg did not; `snippet` is plain text of at most 240 characters.
    """

    score: float
    similarity: float | None
    keyword_score: float | None
    sources: Sequence[Leg]
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
class SemanticExplanation:
    """What the semantic leg did."""

    strategy: str
    candidates: int
    passages_in_tenant: int


@dataclass(frozen=True, slots=True)
class KeywordExplanation:
    """What the keyword leg did; `full_match_score` is BM25 of an entry that covers the whole query."""

    strategy: str
    candidates: int
    matches: int
    phrases: Sequence[str]
    corrections: Mapping[str, str]
    best_score: float
    full_match_score: float


@dataclass(frozen=True, slots=True)
class PinnedLeg:
    """A leg of an earlier search, of which nothing is known but that it ran."""

    strategy: None = None


@dataclass(frozen=True, slots=True)
class LegExplanations:
    """What each leg did; None for one that did not run."""

    semantic: SemanticExplanation | PinnedLeg | None
    keyword: KeywordExplanation | PinnedLeg | None


@dataclass(frozen=True, slots=True)
class EmbeddingFailure:
    """How often the provider was asked for the query's vector in vain."""

    attempts: int


@dataclass(frozen=True, slots=True)
class HitExplanation:
    """Where each leg ranks a hit, and what its score is made of.

    `cosine` is also there for a hit that score fusion compared by itself. On the later pages of a search the fused
    terms and the boosts are None.
    """

    id: UUID
    rank: int
    semantic_rank: int | None
    keyword_rank: int | None
    similarity: float | None
    cosine: float | None
    keyword_score: float | None
    semantic_term: float | None
    keyword_term: float | None
    boosts: Mapping[str, float] | None
    score: float

    def rank_in(self, leg: Leg) -> int | None:
        """Its rank in the leg, None where that did not find it."""
        return self.semantic_rank if leg == "semantic" else self.keyword_rank

    def term_of(self, leg: Leg) -> float:
        """What the leg adds to its score, as far as that is known."""
        return (self.semantic_term if leg == "semantic" else self.keyword_term) or 0.0


@dataclass(frozen=True, slots=True)
class Explanation:
    """The settings in force, what each leg did, and each hit's ranks, raw scores, fused terms and boosts.

    A term is its leg's weight times 1/(rrf_k + rank), or in score fusion times the cosine (at least 0) and
    keyword_score/keyword_scale; a score is the sum of the terms, times the boosts. Diversity reorders, no more.
    """

    mode: str
    fusion: str
    weights: Weights
    rrf_k: int
    keyword_scale: float | None
    boost: Sequence[str]
    diversity: float
    similarity_threshold: float
    model: ModelName
    legs: LegExplanations
    embedding_failure: EmbeddingFailure | None
    hits: Sequence[HitExplanation]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits, best first; iterating over the result gives them."""

    results: Sequence[Hit]
    metadata: SearchMetadata
    debug_info: Explanation | None = None

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: int) -> Hit:
        return self.results[index]


@dataclass(frozen=True, slots=True)
class Ranking:
    """All candidates of a search, best first, and what is known of them whichever page is shown."""

    candidates: Sequence[Candidate]
    strong_match: bool
    fallback: bool
    search_modes_used: Sequence[str]
    degraded: Sequence[str]
    exact: bool
    estimated_matches: int
