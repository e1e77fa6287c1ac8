"""A search with every choice made, and what its legs bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.embeddings.provider import Vector
from app.errors import EmbeddingUnavailable, InvalidInput
from app.knowledge.search.legs.semantic import EXACT_LIMIT, SemanticHits
from app.knowledge.search.query import SearchQuery
from app.knowledge.search.ranking.fusion import SCORE_DEPTH, SCORE_WEIGHTS, Leg, LegHit
from app.knowledge.tenants.directory import TenantContext
from app.knowledge.vocabulary import Weights

KEYWORD_BUDGET = 1_000
"""Postings that the keyword leg reads for its candidates, rarest words first. Twice as many cost twice the time, and
gain 0.001 nDCG@10 on Cranfield and nothing on SciFact and SQuAD; 500 lose 0.006 on Cranfield."""

KEYWORD_POOL = 100
"""Candidates that the keyword leg scores by all words of the query, at least."""

DEFAULT_LIMIT, DEFAULT_MAX_LIMIT = 10, 50
"""Hits a page for outside callers, where the operator sets nothing else: unless asked, and at most."""


@dataclass(frozen=True, slots=True)
class SearchDefaults:
    """The service's own choices, where neither the search nor its tenant makes one, and its largest page.

    `max_limit` holds for outside callers, whose ways in give it to their `SearchQuery`.
    """

    weights: Weights = field(default_factory=Weights)
    similarity_threshold: float | None = None
    default_limit: int = DEFAULT_LIMIT
    max_limit: int = DEFAULT_MAX_LIMIT
    exact_limit: int = EXACT_LIMIT
    keyword_budget: int = KEYWORD_BUDGET


@dataclass(frozen=True, slots=True)
class Plan:
    """A search with every choice made: the request's, else the tenant's, else the service's, else the model's."""

    query: SearchQuery
    tenant: TenantContext
    limit: int
    weights: Weights
    threshold: float
    fusion: str
    wanted: int


@dataclass(slots=True)
class Legs:
    """What the legs brought, and how long they took (seconds).

    `whole` says that the query is an identifier which the keyword leg's entries have as a whole.
    """

    semantic: SemanticHits | None = None
    keyword: Sequence[LegHit] | None = None
    keyword_matches: int = 0
    best_keyword_score: float = 0.0
    whole: bool = False
    corrections: dict[str, str] = field(default_factory=dict)
    vector: Vector | None = None
    failure: EmbeddingUnavailable | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def searched(self) -> list[Leg]:
        """The legs that were run."""
        legs: dict[Leg, object] = {"semantic": self.semantic, "keyword": self.keyword}
        return [leg for leg, found in legs.items() if found is not None]

    def words_sought(self, query: str) -> str:
        """The query with what misspelt words of it were taken for."""
        return " ".join((query, *self.corrections.values()))


def make_plan(query: SearchQuery, tenant: TenantContext, defaults: SearchDefaults) -> Plan:
    """Settle weights, threshold, fusion and depth. Raises InvalidInput for what only the tenant can judge."""
    settings = tenant.settings
    dimensions = tenant.space.dimensions
    if query.query_embedding is not None and len(query.query_embedding) != dimensions:
        raise InvalidInput.of("query_embedding", f"must have {dimensions} numbers, as the tenant's model has")
    most = query.max_limit if settings.max_limit is None else settings.max_limit
    limit = query.limit
    if limit is None:
        limit = min(settings.default_limit or defaults.default_limit, most, query.max_limit)
    elif limit > most:
        raise InvalidInput.of("limit", f"must be between 1 and {most} in this tenant")
    thresholds = (query.similarity_threshold, settings.similarity_threshold, defaults.similarity_threshold)
    fusion = query.fusion or settings.fusion
    return Plan(
        query=query,
        tenant=tenant,
        limit=limit,
        weights=query.weights
        or settings.weights
        or (SCORE_WEIGHTS if fusion == "score" else defaults.weights),
        threshold=next((t for t in thresholds if t is not None), tenant.model.similarity_threshold),
        fusion=fusion,
        wanted=max(3 * limit, SCORE_DEPTH if fusion == "score" else 30),
    )
