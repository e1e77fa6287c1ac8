"""The answer of a search: hits with scores, metadata, explanation, groups and facets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from app.contract.entries import EntryCore
from app.contract.models import ModelInfo
from app.contract.problems import Problem
from app.contract.search import Weights
from app.contract.settings import Adaptation
from app.contract.validation import Described
from app.contract.vocabulary import Degradation, Leg, WeightsOrigin


@dataclass(frozen=True, slots=True)
class Passage:
    """A further passage of a hit's asset."""

    id: UUID
    score: float
    chunk_index: int | None
    page: Annotated[int | None, Field(description="The page that it starts on, if the asset has pages.")]
    title: Annotated[str | None, Field(description="The headings above it, as in the title of a hit.")]
    snippet: str


@dataclass(frozen=True, slots=True)
class PassageGroup:
    """The passages of a hit's asset."""

    total: Annotated[int, Field(description="Ranked passages of the asset, with the hit itself.", examples=[7])]
    further: Annotated[Sequence[Passage], Field(description="The best of the others, at most three.")]


@dataclass(frozen=True, slots=True)
class Validity(Described):
    """When the version of an entry was valid that a search with `as_of` found."""

    valid_from: datetime
    valid_until: datetime | None
    """The version ended just before; null if it is still valid."""


@dataclass(frozen=True, slots=True)
class HitOrigin(Described):
    """The source of a hit's asset."""

    source: Annotated[str, Field(examples=["handbook"])]
    agreed_at: datetime | None
    """When the source last agreed with its origin: the text was then the origin's. Null: not yet."""

    @property
    def text(self) -> str:
        """The origin for people, on one line."""
        if self.agreed_at is None:
            return f"{self.source}, which has not agreed with its origin yet"
        return f"{self.source}, which agreed with its origin at {self.agreed_at:%Y-%m-%dT%H:%M:%SZ}"


HIT_METADATA = Field(
    description="A chunk also has char_start and char_end in the asset's text; headings, those above it from the"
    " topmost; page and total_pages if the asset has pages or slides; page_end if the chunk continues on a later"
    " page; ocr, if its text was recognised on an image and can contain errors; header_chars, the length of the"
    " header of its table, which its content begins with and which stands before char_start. If a chunk has several"
    " small pages or sections, char_start, char_end, headings, page and page_end are those of the one that matched.",
    examples=[{"char_start": 0, "char_end": 812, "page": 3, "total_pages": 12, "headings": ["Payments", "Refunds"]}],
)


@dataclass(frozen=True, slots=True)
class FoundEntry(EntryCore):
    """An entry as hits show it."""

    metadata: Annotated[Mapping[str, Any], HIT_METADATA]
    asset_name: str | None
    chunk_index: int | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit(FoundEntry):
    """A ranked entry with its scores and the legs that found it."""

    score: Annotated[float, Field(examples=[0.0161])]
    similarity: Annotated[float | None, Field(description="Cosine; null if the semantic leg did not find the entry.")]
    keyword_score: Annotated[float | None, Field(description="BM25; null if the keyword leg did not find the entry.")]
    sources: Annotated[Sequence[Leg], Field(examples=[["semantic", "keyword"]])]
    """The legs that found the entry."""
    snippet: str
    """Plain text, at most 240 characters, without Markdown and HTML; … marks a cut."""
    snippet_start: int
    """Where the text of the snippet starts in `content`, in characters."""
    snippet_end: Annotated[int, Field(description="Where it ends.")]
    matched_terms: Sequence[str]
    duplicates: Annotated[int, Field(examples=[0])]
    """Ranked entries that differ from it only in numbers and dates, and are not hits; `duplicates: show` in the request
    lists them."""
    group: Annotated[PassageGroup | None, Field(description="Only with `group_by`.")]
    validity: Annotated[Validity | None, Field(description="Only with `as_of`.")]
    origin: Annotated[HitOrigin | None, Field(examples=[None])]
    """Only for chunks of assets that belong to a source; with `as_of`, only while they are valid."""


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Filters of a search without which entries match."""

    without: Annotated[Sequence[str], Field(description="Names of filters, as in the request.", examples=[["tags"]])]
    matches: Annotated[int, Field(description="About how many entries match without them.", examples=[12])]

    def __str__(self) -> str:
        entries = "entry matches" if self.matches == 1 else "entries match"
        return f"about {self.matches} {entries} without {' and '.join(self.without)}"


def note_relaxations(relaxations: Sequence[Relaxation]) -> str:
    """A sentence that names the filters because of which nothing was found; empty if they are not the cause."""
    matches = ", ".join(map(str, relaxations))
    return f"Nothing matches under these filters; {matches}." if matches else ""


@dataclass(frozen=True, slots=True)
class SearchMetadata(Described):
    """Facts about the search; times in milliseconds."""

    search_id: UUID
    total: int
    """Hits in the ranked list, before the limit; near-duplicates count as one, and with `group_by`, groups."""
    phrases: Annotated[Sequence[str], Field(examples=[["route order"]])]
    """Quoted parts of the query, which each entry found by its words has."""
    excluded: Annotated[Sequence[str], Field(examples=[["legacy"]])]
    """Words and phrases after a hyphen in the query, which no hit has."""
    strong_match: bool
    """Whether, judging by scores, a hit of the first page clearly answers the query."""
    fallback_mode: bool
    """Whether the embedding provider failed and the search used keywords only."""
    search_modes_used: Annotated[Sequence[Leg], Field(description="The legs that compared entries with the query.")]
    degraded: Annotated[Sequence[Degradation], Field(examples=[["embeddings_pending"]])]
    """What keeps the answer from being complete; empty: nothing. `embedding_unavailable`: keyword search only.
    `quota_exhausted`: keyword search only, and no reranking. `embeddings_pending`: some entries have no vector yet and
    are found only by their words; see `pending`. `query_unknown`: the model knows no word of the query, as with
    an emoji, or in a script that it has not learned; keyword search only. `reranker_unavailable`: the hits are in the
    fused order.
    `ranking_truncated`: more entries may match than the ranked list has; on its first page and on its last."""
    exact: bool
    """Whether every entry that the filters admit was compared in each leg of `search_modes_used`. If not, there may be
    better hits."""
    pending: Annotated[int, Field(examples=[0])]
    """Entries that the filters admit and that have no vector yet; 0 in mode `keyword`. Where more than 2,000 entries of
    the tenant wait, it may be too low, and is at least 1."""
    estimated_matches: int
    """About how many entries match: those that reach the similarity threshold, or those with a word of the query,
    whichever are more; never less than `total`. A lower bound where `exact` is false."""
    suggestions: Sequence[str]
    """If nothing was found: queries to try. Each finds an entry that passes the filters."""
    relaxations: Sequence[Relaxation]
    """If nothing was found because of the filters: what matches without each of them, or, if that is nothing, without
    all of them. Empty if the filters are not the cause."""
    weights: Annotated[Weights, Field(description="The weights of the legs in the fusion.")]
    weights_from: WeightsOrigin
    """Where they come from. `request`, `settings`: given there. `feedback`: found on judged queries. `searches`: they
    follow how sure the semantic leg is of the tenant's searches. `default`: the service's."""
    reranked: bool
    """Whether the reranker ordered the first candidates; scores then do not descend."""
    next_cursor: str | None
    query_time_ms: Annotated[int, Field(description="Time from the request's arrival to the answer.")]
    waiting_ms: int
    """The part of `query_time_ms` in which the request waited for a turn: at the limits for simultaneous requests, for
    a database connection, or at the embedding model."""
    embedding_ms: int
    semantic_ms: int
    keyword_ms: int
    fusion_ms: int
    reranking_ms: int

    @property
    def filter_note(self) -> str:
        """A sentence that names the filters because of which nothing was found; empty if they are not the cause."""
        return note_relaxations(self.relaxations)


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
        compounds: compounds of the query with their parts, or parts with their compounds and other longer words.
        synonyms: terms of the query with the tenant's synonyms for them.
        ignored: stop words of the query that were not searched for.
    """

    strategy: str
    candidates: int
    matches: int
    phrases: Sequence[str]
    corrections: Mapping[str, str]
    completions: Mapping[str, Sequence[str]]
    compounds: Mapping[str, Sequence[str]]
    synonyms: Mapping[str, Sequence[str]]
    ignored: Sequence[str]
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
    reranker and diversity only reorder hits. `reranker` is None if it was not asked, and `adaptation` if the weights do
    not come from searches.
    """

    mode: str
    fusion: str
    weights: Weights
    weights_from: WeightsOrigin
    adaptation: Adaptation | None
    rrf_k: int
    keyword_scale: float | None
    cosine_stretch: float | None
    boost: Sequence[str]
    diversity: float
    similarity_threshold: float
    model: ModelInfo
    legs: LegExplanations
    embedding_failure: EmbeddingFailure | None
    reranker: RerankerExplanation | None
    hits: Sequence[HitExplanation]


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value of a field."""

    value: Annotated[str | int | float | bool, Field(examples=["backup"])]
    count: Annotated[int, Field(description="Matches that have it.", examples=[12])]


@dataclass(frozen=True, slots=True)
class Facet(Described):
    """The values of a field among all matches."""

    values: Sequence[FacetValue]
    """The most frequent first, at most 50, and of at most 200 characters. An entry counts once for each of its values;
    an item of a list in metadata is a value."""
    other: Annotated[int, Field(description="The sum of the counts of all other values.")]
    missing: Annotated[int, Field(description="Matches without a value.")]
    exact: Annotated[bool, Field(description="Whether every match was counted; if not, the counts are lower bounds.")]


@dataclass(frozen=True, slots=True)
class SearchResult(Described):
    """Hits, best first."""

    results: Sequence[Hit]
    metadata: SearchMetadata
    debug_info: Annotated[Explanation | None, Field(description="Only with `explain`.")]
    facets: Annotated[
        Mapping[str, Facet] | None,
        Field(
            examples=[{"tags": {"values": [{"value": "backup", "count": 12}], "other": 0, "missing": 3, "exact": True}}]
        ),
    ]
    """Only with `facets`, and not with `cursor`: how many matches have each value. A match passes the filters, and has
    a word of the query or reaches the similarity threshold; the pages show the best of them."""

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: int) -> Hit:
        return self.results[index]


@dataclass(frozen=True, slots=True)
class SearchProblem(Problem):
    """The problem of one search of a batch, with the values that would be headers."""

    retry_after: int | None = None
    """For 429 and 503: seconds to wait before trying again."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The outcome of one search of a batch: its result, or its problem."""

    index: Annotated[int, Field(description="The position in the request, from 0.")]
    status: Annotated[int, Field(description="The status of the same search as a single request.", examples=[200])]
    result: SearchResult | None
    error: SearchProblem | None


@dataclass(frozen=True, slots=True)
class SearchBatchResponse:
    """One outcome for each search, in the order of the request."""

    results: Sequence[SearchOutcome]
