"""Read what a query contains: quoted phrases, identifiers, entry types and the filter."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import orjson

from app.contract.filters import read_filter
from app.contract.search import SearchQuery
from app.db.queries.search import EntryFilter
from app.knowledge.search.conditions import compile_filter

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


def needs_vector(query: SearchQuery) -> bool:
    """Whether the query has to be embedded."""
    return query.mode != "keyword" and query.query_embedding is None and query.cursor is None


def list_types(entry_type: str | Sequence[str]) -> tuple[str, ...]:
    """The entry types asked for: one, or several."""
    return (entry_type,) if isinstance(entry_type, str) else tuple(entry_type)


READ: Mapping[str, Callable[[Any], Any]] = {
    "role": lambda role: ("all",) if role == "all" else (role, "all"),
    "entry_type": list_types,
    "metadata": lambda given: orjson.dumps(given).decode() if given else None,
    "filter": lambda given: compile_filter(term) if (term := read_filter(given)[0]) is not None else None,
}
"""Conditions that SQL has in another form than the request; the others are copied."""
COPIED = tuple(field.name for field in fields(EntryFilter) if field.name != "all_tags")


def filter_of(query: SearchQuery) -> EntryFilter:
    """The filter for the SQL of the legs."""
    given = {name: value for name in COPIED if (value := getattr(query, name)) is not None}
    values = {name: READ[name](value) if name in READ else value for name, value in given.items()}
    return EntryFilter(**values, all_tags=query.tags_match == "all")
