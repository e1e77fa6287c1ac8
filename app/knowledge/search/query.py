"""Read what a query contains: quoted phrases, identifiers, entry types and the filter."""

from __future__ import annotations

import re

import orjson

from app.contract.filters import read_filter
from app.contract.search import MOMENTS, SearchQuery
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


def entry_types_of(query: SearchQuery) -> tuple[str, ...] | None:
    """The entry types asked for, or None for all."""
    if query.entry_type is None:
        return None
    return (query.entry_type,) if isinstance(query.entry_type, str) else tuple(query.entry_type)


def filter_of(query: SearchQuery) -> EntryFilter:
    """The filter for the SQL of the legs."""
    roles: tuple[str, ...] | None = None
    if query.role is not None:
        roles = ("all",) if query.role == "all" else (query.role, "all")
    term = None if query.filter is None else read_filter(query.filter)[0]
    return EntryFilter(
        include_superseded=query.include_superseded,
        roles=roles,
        tags=None if query.tags is None else tuple(query.tags),
        all_tags=query.tags_match == "all",
        entry_types=entry_types_of(query),
        min_confidence=query.min_confidence,
        scope=query.scope,
        source=query.source,
        asset_ids=None if query.asset_id is None else tuple(query.asset_id),
        metadata_json=orjson.dumps(query.metadata).decode() if query.metadata else None,
        **{name: getattr(query, name) for name in MOMENTS},
        condition=None if term is None else compile_filter(term),
    )
