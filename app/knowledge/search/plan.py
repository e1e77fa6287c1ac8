"""The plan of a search: all of its settings resolved, within limits and with defaults."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from app.contract.search import (
    DEFAULT_LIMIT,
    DEFAULT_MAX_LIMIT,
    RRF_WEIGHTS,
    SCORE_WEIGHTS,
    SearchQuery,
    Weights,
    current_most_hits,
)
from app.contract.vocabulary import Fusion, WeightsOrigin
from app.db.queries.search import EntryFilter
from app.errors import InvalidInput
from app.knowledge.search.query import Asked, filter_of, read_operators
from app.knowledge.tenants.directory import TenantContext

EXACT_LIMIT = 5_000
"""Number of passages up to which comparing all of them is faster than the index; it is also always complete."""

KEYWORD_BUDGET = 1_000
"""Postings of the query's words up to which the keyword leg scores every entry that has one of them."""

PENDING_POOL = 500
"""Entries that mode `semantic` finds by their words, so that entries without a vector are not missed."""

POOL = 150
"""Candidates of each leg: three times the hits of the largest page for external callers, so more where the service
allows larger pages. It is the same for every limit, so that a small page is the head of a large one; with 30, nDCG@10
differs by less than 0.001."""

GROUP_POOL, DEEPEST_POOL = 500, 2_000
"""Candidates of each leg with which a search grouped by asset starts, and the most with which a search ends that looks
deeper: because too many of its candidates are near-duplicates, or of the same assets, to fill the largest page."""


@dataclass(frozen=True, slots=True)
class SearchDefaults:
    """The service's defaults, for settings that neither the search nor its tenant gives.

    `max_limit` applies to external callers: REST, MCP and the console set it as `most_hits`. `rerank`: whether there is
    a reranker.
    """

    weights: Weights = RRF_WEIGHTS
    similarity_threshold: float | None = None
    default_limit: int = DEFAULT_LIMIT
    max_limit: int = DEFAULT_MAX_LIMIT
    exact_limit: int = EXACT_LIMIT
    keyword_budget: int = KEYWORD_BUDGET
    rerank: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A search with all settings resolved: the request's, else the tenant's, else the service's, else the model's.

    `wanted` is the number of entries that each leg looks for. `asked` is the query without its operators, which the
    ranker adds to the filters: excluded words to that of both legs, and phrases to that of the keyword leg.
    """

    query: SearchQuery
    asked: Asked
    tenant: TenantContext
    entry_filter: EntryFilter
    limit: int
    weights: Weights
    weights_from: WeightsOrigin
    threshold: float
    fusion: Fusion
    wanted: int
    exact_limit: int
    keyword_budget: int
    rerank: bool
    required: str | None = None

    @property
    def keyword_filter(self) -> EntryFilter:
        """The filter of the keyword leg, whose hits have all phrases of the query."""
        return replace(self.entry_filter, required=self.required)

    @property
    def has_hidden_entries(self) -> bool:
        """Whether there are more passages than an exact search compares, and the caller may not read all of them."""
        return self.tenant.restricted and self.tenant.passages > self.exact_limit

    @property
    def is_selective(self) -> bool:
        """Whether counting the filtered entries pays: there is a filter, or all callers see few entries."""
        hides_many = self.has_hidden_entries and self.exact_limit >= self.tenant.open_entries
        return hides_many or not self.entry_filter.is_open

    @property
    def compares_keyword_hits(self) -> bool:
        """Whether fusion needs the cosines of what the keyword leg finds. Former versions are compared separately."""
        return self.fusion == "score" and self.entry_filter.as_of is None


def make_plan(query: SearchQuery, tenant: TenantContext, defaults: SearchDefaults) -> Plan:
    """Resolve the settings of a search. Raises InvalidInput for values that the tenant's settings do not allow."""
    settings = tenant.settings
    dimensions = tenant.space.dimensions
    if query.query_embedding is not None and len(query.query_embedding) != dimensions:
        raise InvalidInput.of("query_embedding", f"must have {dimensions} numbers, as the tenant's model has")
    most = current_most_hits() if settings.max_limit is None else settings.max_limit
    limit = query.limit
    if limit is None:
        limit = min(settings.default_limit or defaults.default_limit, most, current_most_hits())
    elif limit > most:
        raise InvalidInput.of("limit", f"must be between 1 and {most} in this tenant")
    if query.rerank and settings.rerank is False:
        raise InvalidInput.of("rerank", "must not be true: the tenant's setting rerank is false")
    if query.as_of is not None:
        if not settings.keep_versions_days:
            raise InvalidInput.of("as_of", "needs the tenant's setting keep_versions_days")
        if query.as_of >= datetime.now(UTC):
            raise InvalidInput.of("as_of", "must be in the past")
    thresholds = (query.similarity_threshold, settings.similarity_threshold, defaults.similarity_threshold)
    fusion = query.fusion or settings.fusion
    weights, origin = _choose_weights(query, tenant, fusion, defaults)
    return Plan(
        query=query,
        asked=read_operators(query.query),
        tenant=tenant,
        entry_filter=filter_of(query),
        limit=limit,
        weights=weights,
        weights_from=origin,
        threshold=next((t for t in thresholds if t is not None), tenant.model.similarity_threshold),
        fusion=fusion,
        wanted=POOL * max(defaults.max_limit, DEFAULT_MAX_LIMIT) // DEFAULT_MAX_LIMIT
        if query.group_by is None
        else GROUP_POOL,
        exact_limit=defaults.exact_limit,
        keyword_budget=defaults.keyword_budget,
        rerank=next((r for r in (query.rerank, settings.rerank) if r is not None), defaults.rerank),
    )


def _choose_weights(
    query: SearchQuery, tenant: TenantContext, fusion: Fusion, defaults: SearchDefaults
) -> tuple[Weights, WeightsOrigin]:
    """The weights of the legs. A single leg has the default's: its scores then mean the same at all times."""
    settings = tenant.settings
    if query.weights is not None:
        return query.weights, "request"
    if (given := settings.weights_of(fusion)) is not None:
        return given
    if fusion == "rrf":
        return defaults.weights, "default"
    is_adapted = settings.adaptive_weights and query.mode == "hybrid" and tenant.searches
    if not is_adapted or tenant.model.centre is None:
        return SCORE_WEIGHTS, "default"
    return tenant.adaptation.weights, "searches"
