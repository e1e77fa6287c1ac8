"""How much a tenant's searches change with its embedding model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal
from uuid import UUID

from app.knowledge.plan import SearchDefaults, make_plan
from app.knowledge.query import MAX_QUERY_LENGTH, SearchQuery
from app.knowledge.ranking import Ranker
from app.knowledge.tenants import TenantContext

DEPTH = 10
QUERIES = 50
"""Queries compared: the share of equal hits is then known to within some 0.05."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What searches with the old and the new model have in common.

    Attributes:
        queries: how many were compared, and from `source`: the tenant's own, or titles of its entries.
        overlap: mean share of the first ten hits that both models bring, as the tenant searches (0 to 1).
        semantic_overlap: the same of the semantic leg alone.
        same: queries whose first ten hits are the same entries.
        empty: queries for which the new model's semantic leg brings nothing, although the old one's does.
    """

    queries: int
    source: str
    overlap: float
    semantic_overlap: float
    same: int
    empty: int

    def as_mapping(self) -> Mapping[str, Any]:
        """Plain values, to be kept."""
        return asdict(self)


async def compare_models(
    ranker: Ranker,
    defaults: SearchDefaults,
    old: TenantContext,
    new: TenantContext,
    queries: Sequence[str],
    source: str,
) -> Comparison:
    """Ask both models the same queries; nothing of it is recorded.

    Raises EmbeddingUnavailable when one of them has no vector for a query, and DatabaseUnavailable.
    """
    overlaps: list[float] = []
    semantic: list[float] = []
    empty = 0
    for text in (q.strip()[:MAX_QUERY_LENGTH] for q in queries if q.strip()):
        before, after = [await _first_hits(ranker, defaults, t, text, "hybrid") for t in (old, new)]
        overlaps.append(share_in_common(before, after))
        before, after = [await _first_hits(ranker, defaults, t, text, "semantic") for t in (old, new)]
        semantic.append(share_in_common(before, after))
        empty += bool(before) and not after
    return Comparison(
        queries=len(overlaps),
        source=source,
        overlap=_mean(overlaps),
        semantic_overlap=_mean(semantic),
        same=sum(share == 1 for share in overlaps),
        empty=empty,
    )


def share_in_common(first: Sequence[UUID], second: Sequence[UUID]) -> float:
    """The share of the longer list that both have; two empty lists have all in common."""
    longest = max(len(first), len(second))
    return len(set(first) & set(second)) / longest if longest else 1.0


async def _first_hits(
    ranker: Ranker,
    defaults: SearchDefaults,
    tenant: TenantContext,
    text: str,
    mode: Literal["hybrid", "semantic"],
) -> list[UUID]:
    limit = min(DEPTH, tenant.settings.max_limit or DEPTH)
    plan = make_plan(SearchQuery(query=text, mode=mode, limit=limit), tenant, defaults)
    async with ranker.run(plan) as ranked:
        if ranked.legs.failure is not None:
            raise ranked.legs.failure
        return [candidate.entry_id for candidate in ranked.candidates[:limit]]


def _mean(shares: Sequence[float]) -> float:
    return round(sum(shares) / len(shares), 4) if shares else 1.0
