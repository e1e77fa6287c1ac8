"""The request of a search, validated before anything reaches the database."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, get_args
from uuid import UUID

import orjson

from app.db.queries.search.search import EntryFilter
from app.errors import FieldError, InvalidInput
from app.knowledge.text import STORABLE, STORABLE_JSON, count_values, is_storable, is_storable_json
from app.knowledge.vocabulary import (
    MAX_LIMIT,
    Audience,
    Boost,
    EntryType,
    Fusion,
    Mode,
    Scope,
    Source,
    TagsMatch,
    Weights,
)

MAX_QUERY_LENGTH = 10_000
MAX_TAGS = 100

MAX_METADATA_VALUES = 100
"""Values in the filter `metadata`, at any depth. Postgres compares each value of a list with each one that is stored:
8,000 in one list took 23 seconds."""

# The frequent types come first: a check against an abstract type takes ten times as long.
NUMBERS, WHOLE_NUMBERS = (float, int, Real), (int, Integral)
LISTS, NO_LISTS = (list, tuple, Collection), (str, bytes, Mapping)

GIVEN_LISTS = ("tags", "entry_type", "asset_id", "boost", "query_embedding")
"""Fields that a caller may give as a list."""


QUOTED = re.compile(r'(?<![\w"])"([^"\s][^"]{1,300})"|„([^“”]{3,300})[“”]|“([^“”]{3,300})”')
MAX_PHRASES = 5
IDENTIFIER = re.compile(r"[^\W_]+(?:[-._/:][^\W_]+)+")


def is_identifier(query: str) -> bool:
    """Whether the whole query is one identifier, such as KNOW-004, vercel.json or ERR_CONN_RESET."""
    return IDENTIFIER.fullmatch(query) is not None and any(c.isdigit() or c in "_." for c in query)


def quoted_phrases(query: str) -> tuple[str, ...]:
    """The parts of a query in double quotes, at most five; entries with these exact words score higher."""
    found = ((first or second or third).strip() for first, second, third in QUOTED.findall(query))
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
        query_embedding: vector to use instead of embedding the query; finite, not all zero.
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
    include_superseded: bool = False
    boost: Sequence[Boost] = ()
    fusion: Fusion | None = None
    rrf_k: int = 60
    ef_search: int | None = None
    query_embedding: Sequence[float] | None = None
    explain: bool = False
    diversity: float = 0.0
    cursor: str | None = None
    max_limit: int = field(default=MAX_LIMIT, repr=False)

    def __post_init__(self) -> None:
        if errors := self._mistyped():
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
        if self.metadata is not None:
            object.__setattr__(self, "metadata", orjson.loads(orjson.dumps(self.metadata)))

    def _mistyped(self) -> list[FieldError]:
        """Find fields of a wrong type, which Python does not check; `_errors` checks fields with fixed values."""
        wrong = [FieldError("query", "must be text")] if not isinstance(self.query, str) else []
        for names, fits, message in TYPES:
            wrong += [FieldError(name, message) for name in names if not fits(getattr(self, name))]
        return wrong

    def _errors(self) -> list[FieldError]:
        errors: list[FieldError] = []

        def check(name: str, ok: bool, message: str) -> None:
            if not ok:
                errors.append(FieldError(name, message))

        check(
            "query",
            1 <= len(self.query) <= MAX_QUERY_LENGTH,
            f"must have 1 to {MAX_QUERY_LENGTH} characters after trimming",
        )
        check("query", is_storable(self.query), "must not contain NUL characters or lone surrogates")
        check("mode", self.mode in get_args(Mode), "must be hybrid, semantic or keyword")
        check(
            "limit",
            _absent_or_between(self.limit, 1, self.max_limit),
            f"must be between 1 and {self.max_limit}",
        )
        check(
            "similarity_threshold",
            _absent_or_between(self.similarity_threshold, 0, 1),
            "must be between 0 and 1",
        )
        if self.weights is not None:
            errors.extend(self.weights.errors())
        check("role", self.role is None or self.role in get_args(Audience), "must be pm, dev, qa or all")
        check(
            "tags",
            self.tags is None
            or (
                len(self.tags) <= MAX_TAGS
                and all(tag and len(tag) <= 100 and is_storable(tag) for tag in self.tags)
            ),
            f"must be at most {MAX_TAGS} tags of 1 to 100 characters, {STORABLE}",
        )
        for name in ("tags", "entry_type", "asset_id"):
            value = getattr(self, name)
            check(
                name,
                value is None or len(value) > 0,
                "must not be empty; omit it to search without this filter",
            )
        check("tags_match", self.tags_match in get_args(TagsMatch), "must be any or all")
        check(
            "entry_type",
            all(t in get_args(EntryType) for t in self.entry_types or ()),
            f"must be one or more of {', '.join(get_args(EntryType))}",
        )
        check("min_confidence", _absent_or_between(self.min_confidence, 0, 1), "must be between 0 and 1")
        check("scope", self.scope is None or self.scope in get_args(Scope), "must be global or project")
        check("source", self.source is None or self.source in get_args(Source), "must be entry or asset")
        check("asset_id", self.asset_id is None or len(self.asset_id) <= 1000, "must be at most 1000 ids")
        check(
            "metadata",
            self.metadata is None or _is_filter(self.metadata),
            f"must be a JSON object of at most {MAX_METADATA_VALUES} values and 64 KiB, {STORABLE_JSON}",
        )
        check("boost", all(b in get_args(Boost) for b in self.boost), "must be of type, access, verified")
        check("diversity", _absent_or_between(self.diversity, 0, 1), "must be between 0 and 1")
        check("fusion", self.fusion is None or self.fusion in get_args(Fusion), "must be rrf or score")
        check("rrf_k", 1 <= self.rrf_k <= 1000, "must be between 1 and 1000")
        check(
            "ef_search", self.ef_search is None or 10 <= self.ef_search <= 200, "must be between 10 and 200"
        )
        check(
            "query_embedding",
            self.query_embedding is None or (_are_finite(self.query_embedding) and any(self.query_embedding)),
            "must be finite numbers, not all zero",
        )
        return errors

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
        )


def _absent_or_between(value: float | None, low: float, high: float) -> bool:
    return value is None or low <= value <= high


def _is_filter(metadata: Any) -> bool:
    return (
        isinstance(metadata, dict)
        and count_values(metadata, MAX_METADATA_VALUES) <= MAX_METADATA_VALUES
        and is_storable_json(metadata)
    )


def _are_finite(values: Sequence[float]) -> bool:
    try:
        return all(map(math.isfinite, values))
    except TypeError:  # checking the type of each value first would be slower than everything else here
        return False


def _is_number(value: object) -> bool:
    return isinstance(value, NUMBERS) and not isinstance(value, bool)


def _is_whole_number(value: object) -> bool:
    return isinstance(value, WHOLE_NUMBERS) and not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, LISTS) and not isinstance(value, NO_LISTS)


TYPES: Sequence[tuple[Sequence[str], Callable[[Any], bool], str]] = (
    (("rrf_k", "max_limit"), _is_whole_number, "must be an integer"),
    (("limit", "ef_search"), lambda v: v is None or _is_whole_number(v), "must be an integer"),
    (("diversity",), _is_number, "must be a number"),
    (("similarity_threshold", "min_confidence"), lambda v: v is None or _is_number(v), "must be a number"),
    (("weights",), lambda v: v is None or isinstance(v, Weights), "must be Weights(semantic, keyword)"),
    (
        ("tags",),
        lambda v: v is None or (_is_list(v) and all(isinstance(tag, str) for tag in v)),
        "must be a list of texts",
    ),
    (
        ("asset_id",),
        lambda v: v is None or (_is_list(v) and all(isinstance(asset, UUID) for asset in v)),
        "must be a list of UUIDs",
    ),
    (("entry_type",), lambda v: v is None or isinstance(v, str) or _is_list(v), "must be a type or a list"),
    (("boost",), _is_list, "must be a list"),
    (("query_embedding",), lambda v: v is None or _is_list(v), "must be a list of numbers"),
    (("include_superseded", "explain"), lambda v: isinstance(v, bool), "must be True or False"),
    (("cursor",), lambda v: v is None or isinstance(v, str), "must be text"),
)
"""Fields, a test of their type, and the error message."""
