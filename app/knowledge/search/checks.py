"""The rules for the fields of a search: the type of each, then its values."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, get_args
from uuid import UUID

from app.contract.text import (
    MARKS_RULE,
    MOMENT,
    STORABLE,
    STORABLE_JSON,
    count_values,
    has_excess_marks,
    is_moment,
    is_storable,
    is_storable_json,
)
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
from app.errors import FieldError

MAX_QUERY_LENGTH = 10_000
MAX_TAGS = 100

FIELD_FACETS = ("tags", "entry_type", "roles", "scope", "source", "asset_id")
METADATA_FACET = "metadata."
MAX_FACETS = 10
"""Fields whose values a search can count; a key of metadata follows the prefix."""

MAX_METADATA_VALUES = 100
"""Values in the filter `metadata`, at any depth. Postgres compares each value of a list with each one that is stored:
8,000 in one list took 23 seconds."""

# The frequent types come first: a check against an abstract type takes ten times as long.
NUMBERS, WHOLE_NUMBERS = (float, int, Real), (int, Integral)
LISTS, NO_LISTS = (list, tuple, Collection), (str, bytes, Mapping)

TIMES = ("created_after", "created_before", "updated_after", "updated_before")
MOMENTS = (*TIMES, "as_of")

Rule = tuple[Sequence[str], Callable[[Any], bool], str]
"""Fields, a test of the value of each, and the error message."""


def find_broken(rules: Sequence[Rule], fields: object) -> list[FieldError]:
    """Return an error for each field that breaks one of the rules; `fields` has them as attributes."""
    return [
        FieldError(name, message)
        for names, fits, message in rules
        for name in names
        if not fits(getattr(fields, name))
    ]


def is_between(low: float, high: float) -> Callable[[Any], bool]:
    """Return the test that a value is absent or in a range, including both ends."""
    return lambda value: value is None or low <= value <= high


def _is_one_of(vocabulary: Any) -> Callable[[Any], bool]:
    allowed = get_args(vocabulary)
    return lambda value: value is None or value in allowed


def _are_tags(tags: Sequence[str]) -> bool:
    return len(tags) <= MAX_TAGS and all(tag and len(tag) <= 100 and is_storable(tag) for tag in tags)


def _are_entry_types(given: Any) -> bool:
    return all(t in get_args(EntryType) for t in ((given,) if isinstance(given, str) else given or ()))


def _are_facets(names: Sequence[Any]) -> bool:
    return len(names) <= MAX_FACETS and all(
        name in FIELD_FACETS
        or (
            name.startswith(METADATA_FACET)
            and len(METADATA_FACET) < len(name) <= len(METADATA_FACET) + 100
            and is_storable(name)
        )
        for name in names
    )


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


TYPES: Sequence[Rule] = (
    (("query",), lambda v: isinstance(v, str), "must be text"),
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
    (
        ("facets",),
        lambda v: _is_list(v) and all(isinstance(name, str) for name in v),
        "must be a list of texts",
    ),
    (("query_embedding",), lambda v: v is None or _is_list(v), "must be a list of numbers"),
    (MOMENTS, lambda v: v is None or is_moment(v), f"must be {MOMENT}"),
    (("include_superseded", "explain"), lambda v: isinstance(v, bool), "must be True or False"),
    (("rerank",), lambda v: v is None or isinstance(v, bool), "must be True or False"),
    (("cursor",), lambda v: v is None or isinstance(v, str), "must be text"),
)
"""Types, which Python does not check; VALUES checks fields with fixed values."""

VALUES: Sequence[Rule] = (
    (
        ("query",),
        lambda v: 1 <= len(v) <= MAX_QUERY_LENGTH,
        f"must have 1 to {MAX_QUERY_LENGTH} characters after trimming",
    ),
    (("query",), is_storable, "must not contain NUL characters or lone surrogates"),
    (
        ("query",),
        lambda v: not has_excess_marks(v),
        MARKS_RULE,
    ),
    (("mode",), lambda v: v in get_args(Mode), "must be hybrid, semantic or keyword"),
    (("similarity_threshold", "min_confidence", "diversity"), is_between(0, 1), "must be between 0 and 1"),
    (("role",), _is_one_of(Audience), "must be pm, dev, qa or all"),
    (
        ("tags",),
        lambda v: v is None or _are_tags(v),
        f"must be at most {MAX_TAGS} tags of 1 to 100 characters, {STORABLE}",
    ),
    (
        ("tags", "entry_type", "asset_id"),
        lambda v: v is None or len(v) > 0,
        "must not be empty; omit it to search without this filter",
    ),
    (("tags_match",), lambda v: v in get_args(TagsMatch), "must be any or all"),
    (("entry_type",), _are_entry_types, f"must be one or more of {', '.join(get_args(EntryType))}"),
    (("scope",), _is_one_of(Scope), "must be global or project"),
    (("source",), _is_one_of(Source), "must be entry or asset"),
    (("asset_id",), lambda v: v is None or len(v) <= 1000, "must be at most 1000 ids"),
    (
        ("metadata",),
        lambda v: v is None or _is_filter(v),
        f"must be a JSON object of at most {MAX_METADATA_VALUES} values and 64 KiB, {STORABLE_JSON}",
    ),
    (("boost",), lambda v: all(b in get_args(Boost) for b in v), "must be of type, access, verified"),
    (
        ("facets",),
        _are_facets,
        f"must be at most {MAX_FACETS} of {', '.join(FIELD_FACETS)} and metadata.KEY with a KEY of 1 to 100 characters",
    ),
    (("fusion",), _is_one_of(Fusion), "must be rrf or score"),
    (("group_by",), _is_one_of(GroupBy), "must be asset"),
    (("rrf_k",), is_between(1, 1000), "must be between 1 and 1000"),
    (("ef_search",), is_between(10, 200), "must be between 10 and 200"),
    (
        ("query_embedding",),
        lambda v: v is None or (_are_finite(v) and any(v)),
        "must be finite numbers, not all zero",
    ),
)
"""Values of fields with the right type. The limit depends on the caller, and the weights have rules of their own."""
