"""Receipts of searches, kept for a day, and the cursors of later pages that refer to them."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import cache
from importlib.metadata import version
from typing import Any
from uuid import UUID

import orjson

from app.contract.receipts import RankedEntry, Receipt, SearchReceipt
from app.contract.search import SearchQuery
from app.db.queries import search
from app.db.queries.receipts import RANKS, KeptSearch, Marks, ranks_of
from app.errors import InvalidInput
from app.knowledge.search.plan import Plan
from app.knowledge.search.query import list_types
from app.knowledge.search.ranking import Candidate, Ranking, shown

NARROWING = (*search.FILTERS, "as_of", "include_superseded")
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


def resume(query: SearchQuery, kept: KeptSearch) -> SearchQuery:
    """Add the filters of the search that the query continues; the query may omit them.

    Raises InvalidInput if the query or its filters differ from that search.
    """
    own, options = mark_search(kept.receipt.search_id, query), kept.receipt.options
    filters = bool(_filters_of(query))
    if query.group_by is not None and query.group_by != options.get("group_by"):
        raise InvalidInput.of("cursor", "belongs to a search that is not grouped: omit group_by")
    if own.query != kept.asked.query or (filters and own.filters != kept.asked.filters):
        raise InvalidInput.of("cursor", "belongs to another search: send the same query and filters")
    if filters:
        return query
    pinned = {name: options.get(name, default) for name, default in FILTERS.items()}
    return replace(query, **pinned)


def _filters_of(query: SearchQuery) -> dict[str, Any]:
    """The filters that are set, in a normalised form."""
    found = {name: value for name in NARROWING if (value := getattr(query, name))}
    if "tags" in found:
        found["tags_match"] = query.tags_match
    if "entry_type" in found:
        found["entry_type"] = list_types(found["entry_type"])
    for name in ("tags", "entry_type", "asset_id"):
        if name in found:
            found[name] = sorted({str(value) for value in found[name]})
    return found


def _hash(search_id: UUID, told: bytes) -> str:
    return hashlib.blake2b(told, digest_size=16, salt=search_id.bytes).hexdigest()


KEPT = timedelta(hours=24)
"""How long a receipt is kept, and how long cursors and feedback for its search are accepted."""

ELSEWHERE = frozenset({
    *("query", "query_embedding", "cursor"),
    *("limit", "mode", "fusion", "weights", "rrf_k", "similarity_threshold"),
})  # fmt: skip
"""Fields that are not among a receipt's options: the query itself, and fields whose resolved values it stores."""

OPTIONS = tuple((f.name, f.default) for f in fields(SearchQuery) if f.name not in ELSEWHERE)


@cache
def service_version() -> str:
    """The version of this service."""
    return version("knowledge-search")


FACTS = tuple(field.name for field in fields(Ranking) if field.name != "candidates")
"""What a receipt has of a ranking, in addition to its candidates."""


def make_receipt(plan: Plan, ranking: Ranking, **search: Any) -> SearchReceipt:
    """Create the receipt of a search, which is identified by the fields of SearchReceipt in `search`.

    It has the query's text only if the tenant's settings allow it.
    """
    query = plan.query
    chosen = {name: value for name, default in OPTIONS if (value := getattr(query, name)) != default}
    return SearchReceipt(
        mode=query.mode,
        model=plan.tenant.model.info,
        query=query.query if plan.tenant.settings.keep_query_text else None,
        rrf_k=query.rrf_k,
        fusion=plan.fusion,
        options={"limit": plan.limit, **chosen},
        ranking=rank_entries(ranking, query),
        version=service_version(),
        weights=plan.weights,
        similarity_threshold=plan.threshold,
        **{name: getattr(ranking, name) for name in FACTS},
        **search,
    )


def rank_entries(ranking: Ranking, query: SearchQuery) -> list[RankedEntry]:
    """The candidates of a ranking as a receipt has them."""
    return [
        RankedEntry(c.entry_id, c.updated_at, *(*ranks_of(c), None if query.group_by is None else c.passages))
        for c in shown(ranking.candidates)
    ]


def pinned_ranking(receipt: Receipt) -> Ranking:
    """Restore the ranking of the search, so that later pages neither repeat nor skip a hit."""
    candidates: list[Candidate] = []
    for entry in receipt.ranking:
        ranks = dict(zip(RANKS, ranks_of(entry), strict=True))
        candidate = Candidate(entry.id, entry.updated_at, passages=entry.passages or 0, **ranks)
        if entry.passages == 0:
            candidates[-1].further = (*candidates[-1].further, candidate)
        else:
            candidates.append(candidate)
    return Ranking(candidates, **{name: getattr(receipt, name) for name in FACTS})
