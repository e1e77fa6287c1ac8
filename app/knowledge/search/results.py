"""The results of a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.contract.vocabulary import Degradation, Leg, Weights
from app.db.queries.search.hits import HitOrigin, StoredEntry, Validity
from app.db.queries.search.receipts import ModelName
from app.knowledge.search.ranking import Candidate


@dataclass(frozen=True, slots=True)
class Passage:
    """A further passage of a hit's asset; `page` is the one that it starts on, if the asset has pages."""

    id: UUID
    score: float
    chunk_index: int | None
    page: int | None
    title: str | None
    snippet: str


@dataclass(frozen=True, slots=True)
class PassageGroup:
    """The passages of a hit's asset in a search grouped by asset.

    `total` is the number of ranked passages, with the hit itself; `further` are the best of the others.
    """

    total: int
    further: Sequence[Passage]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit(StoredEntry):
    """A ranked entry with its scores.

    `similarity` is a cosine, None if the semantic leg did not find the entry. `keyword_score` is BM25, None if the
    keyword leg did not. `snippet` is plain text of at most 240 characters: that of `content` from `snippet_start` to
    `snippet_end`. `group` is None unless the search is grouped, `validity` unless it names a time, and `origin` unless
    the entry is a chunk of a source's asset.
    """

    score: float
    similarity: float | None
    keyword_score: float | None
    sources: Sequence[Leg]
    snippet: str
    snippet_start: int
    snippet_end: int
    matched_terms: Sequence[str]
    group: PassageGroup | None = None
    validity: Validity | None = None
    origin: HitOrigin | None = None


@dataclass(frozen=True, slots=True)
class Relaxation:
    """About how many entries match a search without these of its filters."""

    without: Sequence[str]
    matches: int

    def __str__(self) -> str:
        entries = "entry matches" if self.matches == 1 else "entries match"
        return f"about {self.matches} {entries} without {' and '.join(self.without)}"


@dataclass(frozen=True, slots=True)
class SearchMetadata:
    """Facts about the search; times in milliseconds.

    Attributes:
        total: number of ranked entries, which `next_cursor` leads through.
        strong_match: whether the first page has a clear match.
        search_modes_used: the legs that compared entries with the query.
        degraded: what keeps the answer from being complete.
        exact: whether every entry that the filters admit was compared in each of these legs.
        pending: number of entries that the filters admit and that have no vector yet; 0 in mode `keyword`.
        estimated_matches: approximate number of matching entries, at least `total`.
        relaxations: the filters that exclude every match.
        reranked: whether the reranker ordered the first candidates.
        query_time_ms: time from the request's arrival to the answer.
        waiting_ms: the part of it in which the request waited for turns.
    """

    search_id: UUID
    total: int
    strong_match: bool
    fallback_mode: bool
    search_modes_used: Sequence[Leg]
    degraded: Sequence[Degradation]
    exact: bool
    pending: int
    estimated_matches: int
    suggestions: Sequence[str]
    relaxations: Sequence[Relaxation]
    reranked: bool
    next_cursor: str | None
    query_time_ms: int
    waiting_ms: int
    embedding_ms: int
    semantic_ms: int
    keyword_ms: int
    fusion_ms: int
    reranking_ms: int

    @property
    def filter_note(self) -> str:
        """A sentence that names the filters because of which nothing was found; empty if they are not the cause."""
        matches = ", ".join(map(str, self.relaxations))
        return f"Nothing matches under these filters; {matches}." if matches else ""


@dataclass(frozen=True, slots=True)
class SemanticExplanation:
    """How the semantic leg ran."""

    strategy: str
    candidates: int
    passages_in_tenant: int


@dataclass(frozen=True, slots=True)
class KeywordExplanation:
    """How the keyword leg ran; `full_match_score` is the BM25 score of an entry that matches the whole query.

    Attributes:
        corrections: misspelt words, each with its correction.
        completions: the last word, if no entry has it, with words that begin with it.
        compounds: compounds of the query with their parts, or parts with their compound.
    """

    strategy: str
    candidates: int
    matches: int
    phrases: Sequence[str]
    corrections: Mapping[str, str]
    completions: Mapping[str, Sequence[str]]
    compounds: Mapping[str, Sequence[str]]
    best_score: float
    full_match_score: float


@dataclass(frozen=True, slots=True)
class PinnedLeg:
    """A leg of an earlier search; its receipt records only that it ran."""

    strategy: None = None


@dataclass(frozen=True, slots=True)
class LegExplanations:
    """How each leg ran; None for a leg that did not run."""

    semantic: SemanticExplanation | PinnedLeg | None
    keyword: KeywordExplanation | PinnedLeg | None


@dataclass(frozen=True, slots=True)
class EmbeddingFailure:
    """The failure to embed the query, with the number of calls to the provider."""

    attempts: int


@dataclass(frozen=True, slots=True)
class RerankerExplanation:
    """How the reranker ran: its API and model, the candidates that it scored, and the calls without a usable answer."""

    name: str
    candidates: int
    failed_attempts: int | None


@dataclass(frozen=True, slots=True)
class HitExplanation:
    """The rank of a hit in each leg and by the reranker, and the parts of its score.

    `cosine` is also present for a keyword hit whose cosine score fusion computed; `estimated_cosine` replaces it for an
    entry that has no vector yet. On later pages of a search the fused
    terms and the boosts are None.
    """

    id: UUID
    rank: int
    semantic_rank: int | None
    keyword_rank: int | None
    similarity: float | None
    cosine: float | None
    estimated_cosine: float | None
    keyword_score: float | None
    semantic_term: float | None
    keyword_term: float | None
    boosts: Mapping[str, float] | None
    score: float
    rerank_rank: int | None
    rerank_score: float | None

    def rank_in(self, leg: Leg) -> int | None:
        """The rank of the hit in the leg, None if the leg did not find it."""
        return self.semantic_rank if leg == "semantic" else self.keyword_rank

    def term_of(self, leg: Leg) -> float:
        """The leg's part of the score; 0 if it is unknown."""
        return (self.semantic_term if leg == "semantic" else self.keyword_term) or 0.0


@dataclass(frozen=True, slots=True)
class Explanation:
    """The effective settings, how each leg ran, and the ranks, raw scores, fused terms and boosts of each hit.

    A term is the leg's weight times 1/(rrf_k + rank); in score fusion, times 1 - cosine_stretch * (1 - cosine),
    at least 0, or times (keyword_score/keyword_scale)^1.5. A score is the sum of the terms times the boosts. The
    reranker and diversity only reorder hits. `reranker` is None if it was not asked.
    """

    mode: str
    fusion: str
    weights: Weights
    rrf_k: int
    keyword_scale: float | None
    cosine_stretch: float | None
    boost: Sequence[str]
    diversity: float
    similarity_threshold: float
    model: ModelName
    legs: LegExplanations
    embedding_failure: EmbeddingFailure | None
    reranker: RerankerExplanation | None
    hits: Sequence[HitExplanation]


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value, and the number of matches that have it."""

    value: str | int | float | bool
    count: int


@dataclass(frozen=True, slots=True)
class Facet:
    """The values of a field among all matches of a search, the most frequent first.

    Attributes:
        other: the counts of the values that are not listed.
        missing: matches without a value.
        exact: whether every match was counted; if not, the counts are lower bounds.
    """

    values: Sequence[FacetValue]
    other: int
    missing: int
    exact: bool


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits, best first; iterating over the result yields them."""

    results: Sequence[Hit]
    metadata: SearchMetadata
    debug_info: Explanation | None = None
    facets: Mapping[str, Facet] | None = None

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: int) -> Hit:
        return self.results[index]


@dataclass(frozen=True, slots=True)
class Ranking:
    """All candidates of a search, best first, and the facts that are the same for every page."""

    candidates: Sequence[Candidate]
    strong_match: bool
    fallback: bool
    search_modes_used: Sequence[Leg]
    degraded: Sequence[Degradation]
    exact: bool
    pending: int
    estimated_matches: int

    @property
    def reranked(self) -> bool:
        """Whether the reranker scored any candidate."""
        return any(c.rerank_rank is not None for c in self.candidates)
