"""Requests and responses of the search endpoints."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema

from app.contract.results import SearchResult
from app.contract.text import Moment
from app.contract.vocabulary import (
    Audience,
    Boost,
    EntryType,
    Fusion,
    GroupBy,
    Mode,
    Scope,
    Source,
    TagsMatch,
    Weights,
)
from app.knowledge.search.checks import MAX_FACETS
from app.knowledge.search.plan import DEFAULT_LIMIT, DEFAULT_MAX_LIMIT, SearchDefaults
from app.knowledge.search.query import SearchQuery
from app.web.models.filters import EXAMPLE, FILTER_DESCRIPTION, FilterObject
from app.web.models.requests import NOT_BLANK, RequestBody
from app.web.problems import Problem

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
QueryText = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=10_000), NOT_BLANK
]

FacetName = Annotated[
    str,
    WithJsonSchema(
        {"type": "string", "pattern": r"^(tags|entry_type|roles|scope|source|asset_id|metadata\..{1,100})$"}
    ),
]

NOT_EMPTY = Field(json_schema_extra={"minItems": 1})
"""Described only: `SearchQuery` refuses an empty list, with a message that names the remedy."""

Tag = Annotated[str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 100})]


class WeightsModel(RequestBody):
    """The weight of each leg; the weights add up to 1."""

    semantic: Annotated[Number, Field(ge=0, le=1)]
    keyword: Annotated[Number, Field(ge=0, le=1)]

    def to_weights(self) -> Weights:
        """The weights that the service understands."""
        return Weights(self.semantic, self.keyword)


class SearchRequest(RequestBody):
    """A search. Only `query` is required; unknown fields are refused."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "how do I order routes in vercel.json", "limit": 3},
                {"query": "Backup der Datenbank", "mode": "keyword", "role": "dev", "tags": ["backup"]},
                {"query": "route order", "group_by": "asset", "facets": ["tags", "metadata.product"]},
                {"query": "restore", "created_after": "2026-01-01T00:00:00Z", "filter": EXAMPLE},
            ]
        },
    )

    query: QueryText = Field(description="The query, 1 to 10,000 characters after trimming.")
    mode: Mode = Field(
        "hybrid", description="The legs to run: both (hybrid, the default), semantic only, or keyword only."
    )
    limit: Annotated[
        int | None,
        WithJsonSchema({"type": "integer", "minimum": 1, "maximum": DEFAULT_MAX_LIMIT}),
    ] = Field(
        None,
        strict=True,
        description="Hits per page. Default: the tenant's, or the service's, which is"
        f" {DEFAULT_LIMIT}; the maximum is {DEFAULT_MAX_LIMIT} unless the operator has changed it. A page has fewer"
        " when the text of its hits reaches 2 MiB; `next_cursor` continues.",
    )
    similarity_threshold: Annotated[Number, Field(ge=0, le=1)] | None = Field(
        None, description="Minimum cosine of a semantic match. Default: the tenant's, or the model's."
    )
    weights: WeightsModel | None = Field(
        None,
        description="Default: the tenant's, else 0.5 and 0.5, or semantic 0.7 and keyword 0.3 with the fusion `rrf`.",
    )
    role: Audience | None = Field(None, description="Only entries for this role or for all.")
    tags: Annotated[list[Tag], NOT_EMPTY] | None = Field(
        None, max_length=100, description="One or more tags; omit it for no filter."
    )
    tags_match: TagsMatch = Field(
        "any", description="Whether an entry needs any (the default) or all of the tags."
    )
    entry_type: EntryType | Annotated[list[EntryType], NOT_EMPTY] | None = Field(
        None, description="One or more types; omit it for no filter."
    )
    min_confidence: Annotated[Number, Field(ge=0, le=1)] | None = None
    scope: Scope | None = None
    source: Source | None = Field(
        None, description="Only entries written by callers, or only chunks of assets."
    )
    asset_id: Annotated[list[UUID], NOT_EMPTY] | None = Field(
        None, max_length=1000, description="One or more assets; omit it for no filter."
    )
    metadata: dict[str, Any] | None = Field(
        None, description="Values that the entry's metadata must contain, at most 100 at all depths."
    )
    filter: FilterObject | None = Field(None, description=FILTER_DESCRIPTION)
    created_after: Moment | None = Field(
        None, description="Only entries created at this time or later; with a time zone."
    )
    created_before: Moment | None = Field(None, description="Only entries created before this time.")
    updated_after: Moment | None = Field(
        None, description="Only entries whose last change was at this time or later; with a time zone."
    )
    updated_before: Moment | None = Field(
        None, description="Only entries whose last change was before this time."
    )
    as_of: Moment | None = Field(
        None,
        description="A past time, with a time zone: the search answers from what was valid then. Filters apply to the"
        " versions of that time; frequencies of words are today's. The tenant must keep versions"
        " (`keep_versions_days`). A time before the period that it keeps gets a 422 response, which names the earliest"
        " time. Not with `facets`.",
    )
    include_superseded: Annotated[bool, Field(strict=True)] = Field(
        False, description="Whether replaced entries are found, too. Default: false."
    )
    boost: list[Boost] = Field(
        default_factory=list, description="Boosts that multiply the fused score. Default: none."
    )
    fusion: Fusion | None = Field(
        None, description="How the legs are combined. Default: the tenant's, or score."
    )
    rrf_k: Annotated[int, Field(strict=True, ge=1, le=1000)] = Field(
        60, description="The constant of reciprocal rank fusion. Default: 60."
    )
    ef_search: Annotated[int, Field(strict=True, ge=10, le=200)] | None = None
    query_embedding: list[Number] | None = Field(
        None, min_length=1, max_length=4000, description="A vector to use instead of the query's embedding."
    )
    explain: Annotated[bool, Field(strict=True)] = Field(
        False,
        description="Fill `debug_info`. With `cursor`, it has ranks and scores; terms, boosts and strategies are null.",
    )
    diversity: Annotated[Number, Field(ge=0, le=1)] = Field(
        0.0,
        description="Above 0, hits that resemble better ones move down (maximal marginal relevance). Default: 0.",
    )
    rerank: Annotated[bool, Field(strict=True)] | None = Field(
        None,
        description="Whether the reranker compares the first candidates with the query and orders them; `score` stays"
        " the fused score. Default: true where the service has a reranker. `true` is refused where the tenant's setting"
        " is false; without a reranker it gets the fused order, and `reranker_unavailable` in `degraded`.",
    )
    group_by: GroupBy | None = Field(
        None,
        description="`asset`: a hit is the best passage of its asset, and `group` has further ones. `limit`, `total`"
        " and `cursor` count assets; an entry without an asset counts as one.",
    )
    facets: list[FacetName] = Field(
        default_factory=list,
        max_length=MAX_FACETS,
        description="Fields whose values are counted over all matches: `tags`, `entry_type`, `roles`, `scope`,"
        " `source`, `asset_id`, and keys of metadata as `metadata.KEY`. Default: none.",
    )
    cursor: str | None = Field(
        None,
        max_length=200,
        description="The `next_cursor` of an earlier response. Send the same query, and the same filters or none.",
    )

    def to_query(self, defaults: SearchDefaults) -> SearchQuery:
        """Convert the request to a query of the service. Raises InvalidInput."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        if self.weights is not None:
            values["weights"] = self.weights.to_weights()
        return SearchQuery(**values, max_limit=defaults.max_limit)


class SearchBatchRequest(RequestBody):
    """1 to 32 searches, each with its own outcome."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"searches": [{"query": "route order"}, {"query": "backup", "mode": "keyword", "limit": 3}]}
            ]
        },
    )

    searches: Annotated[
        list[Any],
        WithJsonSchema(
            {
                "type": "array",
                "minItems": 1,
                "maxItems": 32,
                "items": {"$ref": "#/components/schemas/SearchRequest"},
            }
        ),
    ] = Field(min_length=1, max_length=32)


class SearchProblem(Problem):
    """The problem of one search of a batch, with the values that would be headers."""

    retry_after: int | None = Field(None, description="For 429 and 503: seconds to wait before trying again.")


class SearchOutcome(BaseModel):
    """The outcome of one search of a batch: its result, or its problem."""

    index: int = Field(description="The position in the request, from 0.")
    status: int = Field(description="The status of the same search as a single request.", examples=[200])
    result: SearchResult | None
    error: SearchProblem | None


class SearchBatchResponse(BaseModel):
    """One outcome for each search, in the order of the request."""

    results: list[SearchOutcome]
