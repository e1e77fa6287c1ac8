"""Receipts of searches, kept for a day, and the cursors of later pages that refer to them."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import cache
from importlib.metadata import version
from typing import Any
from uuid import UUID

import orjson

from app.contract.receipts import RankedEntry
from app.contract.search import SearchQuery
from app.db.queries import search
from app.db.queries.receipts import KeptReceipt, Marks
from app.errors import InvalidInput
from app.knowledge.search.plan import Plan
from app.knowledge.search.query import entry_types_of
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


def resume(query: SearchQuery, search_id: UUID, receipt: KeptReceipt) -> SearchQuery:
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
    return replace(query, **pinned)


def _filters_of(query: SearchQuery) -> dict[str, Any]:
    """The filters that are set, in a normalised form."""
    found = {name: value for name in NARROWING if (value := getattr(query, name))}
    if "tags" in found:
        found["tags_match"] = query.tags_match
    found |= {"entry_type": entry_types_of(query)} if "entry_type" in found else {}
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


def make_receipt(plan: Plan, search_id: UUID, ranking: Ranking, principals: Sequence[str]) -> KeptReceipt:
    """Create the receipt of a search; it has the query's text only if the tenant's settings allow it."""
    query, model = plan.query, plan.tenant.model
    chosen = {name: value for name, default in OPTIONS if (value := getattr(query, name)) != default}
    return KeptReceipt(
        mode=query.mode,
        exact=ranking.exact,
        pending=ranking.pending,
        model=model.info,
        query=query.query if plan.tenant.settings.keep_query_text else None,
        rrf_k=query.rrf_k,
        fusion=plan.fusion,
        options={"limit": plan.limit, **chosen},
        ranking=rank_entries(ranking, query),
        version=service_version(),
        weights=plan.weights,
        degraded=ranking.degraded,
        fallback=ranking.fallback,
        strong_match=ranking.strong_match,
        estimated_matches=ranking.estimated_matches,
        search_modes_used=ranking.search_modes_used,
        similarity_threshold=plan.threshold,
        asked=mark_search(search_id, query),
        principals=principals,
    )


def rank_entries(ranking: Ranking, query: SearchQuery) -> list[RankedEntry]:
    """The candidates of a ranking as a receipt has them."""
    return [
        RankedEntry(
            c.entry_id,
            c.updated_at,
            c.semantic_rank,
            c.similarity,
            c.keyword_rank,
            c.keyword_score,
            c.score,
            c.rerank_rank,
            c.rerank_score,
            None if query.group_by is None else c.passages,
        )
        for c in shown(ranking.candidates)
    ]


def pinned_ranking(receipt: KeptReceipt) -> Ranking:
    """Restore the ranking of the search, so that later pages neither repeat nor skip a hit."""
    candidates: list[Candidate] = []
    for entry in receipt.ranking:
        candidate = Candidate(
            entry.id,
            entry.updated_at,
            semantic_rank=entry.semantic_rank,
            similarity=entry.similarity,
            keyword_rank=entry.keyword_rank,
            keyword_score=entry.keyword_score,
            score=entry.score,
            rerank_rank=entry.rerank_rank,
            rerank_score=entry.rerank_score,
            passages=entry.passages or 0,
        )
        if entry.passages == 0:
            candidates[-1].further = (*candidates[-1].further, candidate)
        else:
            candidates.append(candidate)
    return Ranking(
        candidates=candidates,
        strong_match=receipt.strong_match,
        fallback=receipt.fallback,
        search_modes_used=receipt.search_modes_used,
        degraded=receipt.degraded,
        exact=receipt.exact,
        pending=receipt.pending,
        estimated_matches=receipt.estimated_matches,
    )
