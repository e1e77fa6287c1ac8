"""Requests of searches: single ones, several at once, and why an entry is missing.

`SearchQuery` is the only type of a search request: HTTP, tools, commands, pages and Python all create it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, TypeVar, cast
from uuid import UUID

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema, model_validator

from app.contract.entries import MAX_EXTERNAL_ID
from app.contract.fields import Fraction, Number, QueryText, Text, VectorNumbers, YesOrNo, ZonedMoment, to_plain
from app.contract.filters import EXAMPLE, FILTER_DESCRIPTION, FilterObject
from app.contract.text import STORABLE, STORABLE_JSON, count_values, is_storable, is_storable_json
from app.contract.validation import read_as, request
from app.contract.vocabulary import (
    MAX_LIMIT,
    Audience,
    Boost,
    Duplicates,
    EntryType,
    Fusion,
    GroupBy,
    Mode,
    Scope,
    Source,
    TagsMatch,
)

T = TypeVar("T")

DEFAULT_LIMIT, DEFAULT_MAX_LIMIT = 10, 50
"""Default and largest number of hits on a page for external callers, unless the operator sets others."""

MAX_EF_SEARCH = 1_000
"""The largest `ef_search`: that of the index, which the default reaches."""
MAX_TAGS = 100
MAX_TAG = 100
MAX_ASSETS = 1_000
MAX_CURSOR = 200

FIELD_FACETS = ("tags", "entry_type", "roles", "scope", "source", "asset_id")
METADATA_FACET = "metadata."
MAX_FACETS = 10
"""Fields whose values a search can count; a key of metadata follows the prefix."""

MAX_METADATA_VALUES = 100
"""Values in the filter `metadata`, at any depth. Postgres compares each value of a list with each stored one: 8,000 in
one list took 23 seconds."""

TIMES = ("created_after", "created_before", "updated_after", "updated_before")
MOMENTS = (*TIMES, "as_of")

_most_hits: ContextVar[int] = ContextVar("most_hits", default=MAX_LIMIT)


@contextmanager
def most_hits(most: int) -> Iterator[None]:
    """Inside the block, a page of a search has at most `most` hits: callers from outside get fewer than MAX_LIMIT."""
    token = _most_hits.set(most)
    try:
        yield
    finally:
        _most_hits.reset(token)


def current_most_hits() -> int:
    """The most hits of a page here."""
    return _most_hits.get()


@request
class Weights:
    """The weight of each leg; the weights add up to 1."""

    semantic: Annotated[Number, Field(ge=0, le=1)]
    keyword: Annotated[Number, Field(ge=0, le=1)]

    @model_validator(mode="after")
    def _check_sum(self) -> Weights:
        if abs(self.semantic + self.keyword - 1) > 1e-9:
            raise ValueError("semantic and keyword must sum to 1")
        return self


RRF_WEIGHTS = Weights(0.7, 0.3)
SCORE_WEIGHTS = Weights(0.5, 0.5)
"""Default weights of each fusion; in score fusion, a perfect match in words counts as much as one in meaning."""


def _check_limit(limit: int) -> int:
    most = _most_hits.get()
    if not 1 <= limit <= most:
        raise ValueError(f"must be between 1 and {most}")
    return limit


Limit = (
    Annotated[
        int,
        Field(strict=True),
        BeforeValidator(to_plain),
        AfterValidator(_check_limit),
        WithJsonSchema({"type": "integer", "minimum": 1, "maximum": DEFAULT_MAX_LIMIT}),
    ]
    | None
)
"""The number of hits on a page. What a caller may ask for is the service's own, and described with its default."""


def _check_filled(values: Sequence[T] | None) -> Sequence[T] | None:
    """A filter by no value would admit no entry."""
    if values is not None and not values:
        raise ValueError("must not be empty; omit it to search without this filter")
    return values


def _check_tags(tags: list[str]) -> tuple[str, ...]:
    if not all(tag and len(tag) <= MAX_TAG and is_storable(tag) for tag in tags):
        raise ValueError(f"must be at most {MAX_TAGS} tags of 1 to {MAX_TAG} characters, {STORABLE}")
    return tuple(tags)


Tag = Annotated[Text, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_TAG})]
Tags = Annotated[
    Sequence[str],
    read_as(Annotated[list[Tag], Field(max_length=MAX_TAGS, json_schema_extra={"minItems": 1})]),
    AfterValidator(_check_filled),
    AfterValidator(_check_tags),
]
EntryTypes = Annotated[
    EntryType
    | Annotated[
        Sequence[EntryType],
        read_as(Annotated[list[EntryType], Field(json_schema_extra={"minItems": 1})]),
        AfterValidator(tuple),
    ],
    AfterValidator(_check_filled),
]
"""One type of entries, or several."""
AssetIds = Annotated[
    Sequence[UUID],
    read_as(Annotated[list[UUID], Field(max_length=MAX_ASSETS, json_schema_extra={"minItems": 1})]),
    AfterValidator(_check_filled),
    AfterValidator(tuple),
]


def _check_metadata(given: dict[Any, Any]) -> dict[str, Any]:
    if count_values(given, MAX_METADATA_VALUES) > MAX_METADATA_VALUES or not is_storable_json(given):
        raise ValueError(f"must be a JSON object of at most {MAX_METADATA_VALUES} values and 64 KiB, {STORABLE_JSON}")
    copy: dict[str, Any] = orjson.loads(orjson.dumps(given))
    return copy


MetadataFilter = Annotated[Mapping[str, Any], read_as(dict[Any, Any]), AfterValidator(_check_metadata)]


def _is_facet(name: str) -> bool:
    key = name.removeprefix(METADATA_FACET)
    return name in FIELD_FACETS or (key != name and 1 <= len(key) <= 100 and is_storable(name))


def _check_facets(names: list[str], info: ValidationInfo) -> tuple[str, ...]:
    if not all(map(_is_facet, names)):
        raise ValueError(
            f"must be at most {MAX_FACETS} of {', '.join(FIELD_FACETS)} and metadata.KEY with a KEY of 1 to 100"
            " characters"
        )
    if names and info.data.get("as_of") is not None:
        raise ValueError("must be empty in a search with as_of")
    return tuple(names)


FacetName = Annotated[
    Text, WithJsonSchema({"type": "string", "pattern": rf"^({'|'.join(FIELD_FACETS)}|metadata\..{{1,100}})$"})
]


def later_than(name: str) -> AfterValidator:
    """The field has to be later than the field `name`."""

    def check(before: Any, info: ValidationInfo) -> Any:
        after = info.data.get(name)
        if after is not None and before is not None and after >= before:
            raise ValueError(f"must be later than {name}")
        return before

    return AfterValidator(check)


HalfLife = Annotated[Number, Field(ge=0.1, le=36_500), BeforeValidator(to_plain)]
"""Days after which half of a boost is left."""


@request(
    schema={
        "examples": [
            {"query": "how do I order routes in vercel.json", "limit": 3},
            {"query": "Backup der Datenbank", "mode": "keyword", "role": "dev", "tags": ["backup"]},
            {"query": "route order", "group_by": "asset", "facets": ["tags", "metadata.product"]},
            {"query": "restore", "created_after": "2026-01-01T00:00:00Z", "filter": EXAMPLE},
        ]
    }
)
class SearchQuery:
    """A search. Only `query` is required; unknown fields are refused."""

    query: Annotated[
        QueryText,
        Field(
            description="The query, 1 to 10,000 characters after trimming. A word or phrase directly after a hyphen"
            ' (`-legacy`) is excluded, and a phrase in quotes (`"route order"`) has to be in entries that are found'
            " by their words. A query with several lines or with options of a command (`--all`, `-n`) is searched"
            " for as it stands."
        ),
    ]
    mode: Mode = "hybrid"
    """The legs to run: both (hybrid, the default), semantic only, or keyword only."""
    limit: Annotated[
        Limit,
        Field(
            description="Hits per page. Default: the tenant's, or the service's, which is"
            f" {DEFAULT_LIMIT}; the maximum is {DEFAULT_MAX_LIMIT} unless the operator has changed it. A page has"
            " fewer when the text of its hits reaches 2 MiB; `next_cursor` continues."
        ),
    ] = None
    similarity_threshold: Fraction | None = None
    """Minimum cosine of a semantic match. Default: the tenant's, or the model's."""
    weights: Weights | None = None
    """Default: the tenant's, else 0.5 and 0.5, or semantic 0.7 and keyword 0.3 with the fusion `rrf`."""
    role: Annotated[Audience | None, Field(description="Only entries for this role or for all.")] = None
    tags: Annotated[Tags | None, Field(description="One or more tags; omit it for no filter.")] = None
    tags_match: TagsMatch = "any"
    """Whether an entry needs any (the default) or all of the tags."""
    entry_type: Annotated[EntryTypes | None, Field(description="One or more types; omit it for no filter.")] = None
    min_confidence: Fraction | None = None
    scope: Scope | None = None
    source: Source | None = None
    """Only entries written by callers, or only chunks of assets."""
    asset_id: Annotated[AssetIds | None, Field(description="One or more assets; omit it for no filter.")] = None
    metadata: MetadataFilter | None = None
    """Values that the entry's metadata must contain, at most 100 at all depths."""
    filter: Annotated[FilterObject | None, Field(description=FILTER_DESCRIPTION)] = None
    created_after: ZonedMoment | None = None
    """Only entries created at this time or later; with a time zone."""
    created_before: Annotated[ZonedMoment | None, later_than("created_after")] = None
    """Only entries created before this time."""
    updated_after: ZonedMoment | None = None
    """Only entries whose last change was at this time or later; with a time zone."""
    updated_before: Annotated[ZonedMoment | None, later_than("updated_after")] = None
    """Only entries whose last change was before this time."""
    as_of: ZonedMoment | None = None
    """A past time, with a time zone: the search answers from what was valid then. Filters apply to the versions of that
    time; frequencies of words are today's. The tenant must keep versions (`keep_versions_days`). A time before the
    period that it keeps gets a 422 response, which names the earliest time. Not with `facets`."""
    include_superseded: YesOrNo = False
    """Whether replaced entries are found, too. Default: false."""
    boost: Annotated[Sequence[Boost], read_as(list[Boost]), AfterValidator(tuple)] = ()
    """Boosts that multiply the fused score. Default: none."""
    recent_half_life_days: HalfLife | None = None
    """With the boost `recent`: an entry that has just changed gets half of its score in addition, one that changed so
    many days ago a quarter. Default: the tenant's, or 90."""
    fusion: Fusion | None = None
    """How the legs are combined. Default: the tenant's, or score."""
    rrf_k: Annotated[int, Field(strict=True, ge=1, le=1000), BeforeValidator(to_plain)] = 60
    """The constant of reciprocal rank fusion. Default: 60."""
    ef_search: Annotated[int, Field(strict=True, ge=10, le=MAX_EF_SEARCH), BeforeValidator(to_plain)] | None = None
    """How many candidates the vector index keeps. Default: 130 to 500, more in a larger tenant, and up to 1,000 for a
    caller who may read a part of it."""
    query_embedding: VectorNumbers | None = None
    """A vector to use instead of the query's embedding."""
    explain: YesOrNo = False
    """Fill `debug_info`. With `cursor`, it has ranks and scores; terms, boosts and strategies are null."""
    diversity: Fraction = 0.0
    """Above 0, hits that resemble better ones move down (maximal marginal relevance). Default: 0."""
    rerank: YesOrNo | None = None
    """Whether the reranker compares the first candidates with the query and orders them; `score` stays the fused score.
    Default: true where the service has a reranker. `true` is refused where the tenant's setting is false; without a
    reranker it gets the fused order, and `reranker_unavailable` in `degraded`."""
    group_by: GroupBy | None = None
    """`asset`: a hit is the best passage of its asset, and `group` has further ones. `limit`, `total` and `cursor`
    count assets; an entry without an asset counts as one."""
    duplicates: Duplicates = "fold"
    """`fold`: of entries that differ only in numbers and dates, one is a hit, and its `duplicates` counts the others:
    the best of those with the most numbers of the query. `show`: each is a hit. Default: fold."""
    facets: Annotated[
        Sequence[str], read_as(Annotated[list[FacetName], Field(max_length=MAX_FACETS)]), AfterValidator(_check_facets)
    ] = ()
    """Fields whose values are counted over all matches: `tags`, `entry_type`, `roles`, `scope`, `source`, `asset_id`,
    and keys of metadata as `metadata.KEY`. Default: none."""
    cursor: Annotated[Text, Field(max_length=MAX_CURSOR)] | None = None
    """The `next_cursor` of an earlier response. Send the same query, and the same filters or none."""


def request_of(query: SearchQuery) -> dict[str, Any]:
    """The fields of a search that differ from their defaults."""
    found = ((field, getattr(query, field.name)) for field in fields(cast("Any", query)))
    return {field.name: value for field, value in found if field.default is MISSING or value != field.default}


MAX_BATCH = 32
"""Searches in one request."""


@request(
    schema={"examples": [{"searches": [{"query": "route order"}, {"query": "backup", "mode": "keyword", "limit": 3}]}]}
)
class SearchBatch:
    """1 to 32 searches, each with its own outcome."""

    searches: Annotated[
        Sequence[Any],
        read_as(Annotated[list[Any], Field(min_length=1, max_length=MAX_BATCH)]),
        WithJsonSchema(
            {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_BATCH,
                "items": {"$ref": "#/components/schemas/SearchQuery"},
            }
        ),
    ]


def read_entry_key(given: str) -> UUID | str:
    """The id of an entry, or else its external_id."""
    try:
        return UUID(given)
    except ValueError:
        return given


@request
class WhyNotQuery:
    """An entry, and the search whose results lack it."""

    entry_id: Annotated[Text, Field(min_length=1, max_length=MAX_EXTERNAL_ID)]
    """The id of the entry, or its external_id."""
    request: SearchQuery


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason why the entry is missing."""

    stage: Annotated[str, Field(examples=["semantic"])]
    detail: Annotated[str, Field(examples=["similarity 0.2104 is below the threshold 0.3000"])]


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Whether the entry is on the page, its rank among the candidates, and what excluded it."""

    entry_id: UUID
    in_results: bool
    rank: int | None
    reasons: Sequence[Reason]
    query_time_ms: Annotated[int, Field(description="As in the metadata of a search.")]
    waiting_ms: Annotated[int, Field(description="As in the metadata of a search.")]
