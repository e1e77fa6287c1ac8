"""The request of a search, validated before anything reaches the database."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from app.contract.vocabulary import (
    MAX_LIMIT,
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
from app.db.queries.search.search import EntryFilter
from app.errors import FieldError, InvalidInput
from app.knowledge.search.checks import MOMENTS, TYPES, VALUES, find_broken, is_between
from app.knowledge.search.conditions import compile_filter, read_filter

GIVEN_LISTS = ("tags", "entry_type", "asset_id", "boost", "facets", "query_embedding")
"""Fields that a caller may give as a list."""

QUOTED = re.compile(
    r'(?<![\w"])"([^"\s][^"]{1,300})"|„([^“”]{3,300})[“”]|“([^“”]{2,300})”|「([^「」]{2,300})」|『([^『』]{2,300})』'
)
MAX_PHRASES = 5
IDENTIFIER = re.compile(r"[^\W_]+(?:[-._/:][^\W_]+)+")


def is_identifier(query: str) -> bool:
    """Whether the whole query is one identifier, such as KNOW-004, vercel.json or ERR_CONN_RESET."""
    return IDENTIFIER.fullmatch(query) is not None and any(c.isdigit() or c in "_." for c in query)


def quoted_phrases(query: str) -> tuple[str, ...]:
    """The parts of a query in double quotes, at most five; entries with these exact words score higher."""
    found = ("".join(groups).strip() for groups in QUOTED.findall(query))
    return tuple(dict.fromkeys(phrase for phrase in found if phrase))[:MAX_PHRASES]


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """One search. Only `query` is required; None means the tenant's setting.

    Raises InvalidInput with all invalid fields.

    Attributes:
        query: 1 to 10,000 characters after trimming.
        limit: hits per page, 1 to `max_limit`; None: the tenant's default.
        similarity_threshold: minimum cosine of a passage in the semantic leg, 0 to 1.
        weights: weights of the two legs.
        tags, entry_type, asset_id: one or more values; None means no filter, and an empty list is refused.
        role: a role such as `dev` matches entries for dev and for all.
        rrf_k: constant of Reciprocal Rank Fusion, 1 to 1,000; 60 after Cormack, Clarke and Büttcher (2009).
        ef_search: search effort of the HNSW index, 10 to 200.
        as_of: a past time, with a zone: the search answers from what was valid then.
        filter: ranges and logic on metadata and fields, in the JSON form of the page Filters.
        created_after, created_before, updated_after, updated_before: times with a zone; the later one is excluded.
        query_embedding: vector to use instead of embedding the query; finite, not all zero.
        rerank: whether the reranker orders the first candidates; None: the tenant's setting.
        group_by: `asset`: a hit is the best passage of its asset, with further ones; `limit` counts these groups.
        facets: fields whose values are counted over all matches: `tags`, `entry_type`, `roles`, `scope`, `source`,
            `asset_id`, `metadata.KEY`.
        diversity: 0 to 1, how far hits that resemble better ones are moved down (maximal marginal relevance).
        max_limit: largest allowed `limit`; for external callers, `SearchDefaults.max_limit`.
    """

    query: str
    mode: Mode = "hybrid"
    limit: int | None = None
    similarity_threshold: float | None = None
    weights: Weights | None = None
    role: Audience | None = None
    tags: Sequence[str] | None = None
    tags_match: TagsMatch = "any"
    entry_type: EntryType | Sequence[EntryType] | None = None
    min_confidence: float | None = None
    scope: Scope | None = None
    source: Source | None = None
    asset_id: Sequence[UUID] | None = None
    metadata: Mapping[str, Any] | None = None
    filter: Mapping[str, Any] | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    updated_after: datetime | None = None
    updated_before: datetime | None = None
    as_of: datetime | None = None
    include_superseded: bool = False
    boost: Sequence[Boost] = ()
    fusion: Fusion | None = None
    rrf_k: int = 60
    ef_search: int | None = None
    query_embedding: Sequence[float] | None = None
    explain: bool = False
    diversity: float = 0.0
    rerank: bool | None = None
    group_by: GroupBy | None = None
    facets: Sequence[str] = ()
    cursor: str | None = None
    max_limit: int = field(default=MAX_LIMIT, repr=False)

    def __post_init__(self) -> None:
        if errors := find_broken(TYPES, self):
            raise InvalidInput(errors)
        object.__setattr__(self, "query", self.query.strip())
        errors = self._errors()
        if errors:
            raise InvalidInput(errors)
        self._copy_given()

    def _copy_given(self) -> None:
        """Copy what the caller could change, since the record of the search is made after the answer."""
        for name in GIVEN_LISTS:
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))
        for name in ("metadata", "filter"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, orjson.loads(orjson.dumps(given)))
        for name in MOMENTS:
            if (time := getattr(self, name)) is not None:
                object.__setattr__(self, name, time.astimezone(UTC))

    def _errors(self) -> list[FieldError]:
        errors = find_broken(VALUES, self)
        if not is_between(1, self.max_limit)(self.limit):
            errors.append(FieldError("limit", f"must be between 1 and {self.max_limit}"))
        for kind in ("created", "updated"):
            after, before = getattr(self, f"{kind}_after"), getattr(self, f"{kind}_before")
            if after is not None and before is not None and after >= before:
                errors.append(FieldError(f"{kind}_before", f"must be later than {kind}_after"))
        if self.as_of is not None and self.facets:
            errors.append(FieldError("facets", "must be empty in a search with as_of"))
        if self.filter is not None:
            errors += read_filter(self.filter)[1]
        return errors + (self.weights.errors() if self.weights is not None else [])

    @property
    def needs_vector(self) -> bool:
        """Whether the query has to be embedded."""
        return self.mode != "keyword" and self.query_embedding is None and self.cursor is None

    @property
    def entry_types(self) -> tuple[str, ...] | None:
        """The entry types asked for, or None for all."""
        if self.entry_type is None:
            return None
        return (self.entry_type,) if isinstance(self.entry_type, str) else tuple(self.entry_type)

    @property
    def entry_filter(self) -> EntryFilter:
        """The filter for the SQL of the legs."""
        roles: tuple[str, ...] | None = None
        if self.role is not None:
            roles = ("all",) if self.role == "all" else (self.role, "all")
        term = None if self.filter is None else read_filter(self.filter)[0]
        return EntryFilter(
            include_superseded=self.include_superseded,
            roles=roles,
            tags=tuple(self.tags) if self.tags is not None else None,
            all_tags=self.tags_match == "all",
            entry_types=self.entry_types,
            min_confidence=self.min_confidence,
            scope=self.scope,
            source=self.source,
            asset_ids=tuple(self.asset_id) if self.asset_id is not None else None,
            metadata_json=orjson.dumps(dict(self.metadata)).decode() if self.metadata else None,
            **{name: getattr(self, name) for name in MOMENTS},
            condition=None if term is None else compile_filter(term),
        )


def read_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the fields of a search from JSON; an unreadable time stays a text, which `SearchQuery` refuses.

    Raises ValueError, TypeError or AttributeError for other fields of a wrong type.
    """
    found = dict(values)
    if found.get("weights") is not None:
        found["weights"] = Weights(**found["weights"])
    if found.get("asset_id") is not None:
        found["asset_id"] = [UUID(str(i)) for i in found["asset_id"]]
    for name in MOMENTS:
        if isinstance(given := found.get(name), str):
            with contextlib.suppress(ValueError):
                found[name] = datetime.fromisoformat(given)
    return found
