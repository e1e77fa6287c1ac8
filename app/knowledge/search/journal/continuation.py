"""Cursors of later pages, and the check that a cursor belongs to the search that uses it."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, fields, replace
from typing import Any
from uuid import UUID

import orjson

from app.db.queries.search.receipts import Marks, Receipt
from app.errors import InvalidInput
from app.knowledge.search.checks import MOMENTS
from app.knowledge.search.query import SearchQuery, read_values

NARROWING = (
    *("role", "tags", "entry_type", "min_confidence", "scope", "source", "asset_id", "metadata", "filter"),
    *MOMENTS,
    "include_superseded",
)
FILTERS = {f.name: f.default for f in fields(SearchQuery) if f.name in (*NARROWING, "tags_match")}
"""The filters of a search, each with the default, which filters nothing."""


@dataclass(frozen=True, slots=True)
class PageStart:
    """Where a page of a search starts; offset 0 is the first page."""

    search_id: UUID
    offset: int = 0

    @property
    def cursor(self) -> str:
        """The page start as an opaque text."""
        return base64.urlsafe_b64encode(self.search_id.bytes + self.offset.to_bytes(4)).decode().rstrip("=")

    @classmethod
    def from_cursor(cls, cursor: str) -> PageStart:
        """Decode a cursor. Raises InvalidInput."""
        try:
            raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != 20:
            raise InvalidInput.of("cursor", "must be the next_cursor of an earlier response")
        return cls(UUID(bytes=raw[:16]), int.from_bytes(raw[16:]))


def mark_search(search_id: UUID, query: SearchQuery) -> Marks:
    """Hash the query and the filters with the search's id as salt, to recognise them without storing them."""
    filters = orjson.dumps(_filters_of(query), option=orjson.OPT_SORT_KEYS)
    return Marks(_hash(search_id, query.query.encode()), _hash(search_id, filters))


def resume(query: SearchQuery, search_id: UUID, receipt: Receipt) -> SearchQuery:
    """Add the filters of the search that the query continues; the query may omit them.

    Raises InvalidInput if the query or its filters differ from that search.
    """
    own = mark_search(search_id, query)
    filters = bool(_filters_of(query))
    if query.group_by is not None and query.group_by != receipt.options.get("group_by"):
        raise InvalidInput.of("cursor", "belongs to a search that is not grouped: omit group_by")
    if own.query != receipt.asked.query or (filters and own.filters != receipt.asked.filters):
        raise InvalidInput.of("cursor", "belongs to another search: send the same query and filters")
    if filters:
        return query
    pinned = {name: receipt.options.get(name, default) for name, default in FILTERS.items()}
    return replace(query, **read_values(pinned))


def _filters_of(query: SearchQuery) -> dict[str, Any]:
    """The filters that are set, in a normalised form."""
    found = {name: value for name in NARROWING if (value := getattr(query, name))}
    if "tags" in found:
        found["tags_match"] = query.tags_match
    found |= {"entry_type": query.entry_types} if "entry_type" in found else {}
    for name in ("tags", "entry_type", "asset_id"):
        if name in found:
            found[name] = sorted({str(value) for value in found[name]})
    return found


def _hash(search_id: UUID, told: bytes) -> str:
    return hashlib.blake2b(told, digest_size=16, salt=search_id.bytes).hexdigest()
