"""How much a tenant's searches change with its embedding model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal
from uuid import UUID

from app.knowledge.feedback.gain import ndcg
from app.knowledge.feedback.service import JudgedQuery
from app.knowledge.search.plan import SearchDefaults, make_plan
from app.knowledge.search.query import MAX_QUERY_LENGTH, SearchQuery
from app.knowledge.search.ranking.ranker import Ranker
from app.knowledge.tenants.directory import TenantContext

DEPTH = 10
QUERIES = 50
"""Queries compared: the share of equal hits is then known to within some 0.05."""

JUDGED = 200
"""Judged queries that are asked of both models, at most."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What searches with the old and the new model have in common.

    Attributes:
        queries: how many were compared, and from `source`: the tenant's own, or titles of its entries.
        overlap: mean share of the first ten hits that both models bring, as the tenant searches (0 to 1).
        semantic_overlap: the same of the semantic leg alone.
        same: queries whose first ten hits are the same entries.
        judged: queries that callers have given feedback on; None for both figures where there are none.
        ndcg_old, ndcg_new: mean nDCG@10 of their hits with the old and the new model. Hits that nobody judged count
            as wrong, and those judged were found by the old one: the new one does no worse than this says.
        empty: queries for which the new model's semantic leg brings nothing, although the old one's does.
    """

    queries: int
    source: str
    overlap: float
    semantic_overlap: float
    same: int
    empty: int
    judged: int = 0
    ndcg_old: float | None = None
    ndcg_new: float | None = None

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
    judged: Sequence[JudgedQuery] = (),
) -> Comparison:
    """Ask both models the same queries, and those that were `judged`; nothing of it is recorded.

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
        judged=len(judged[:JUDGED]),
        **await _measure(ranker, defaults, {"ndcg_old": old, "ndcg_new": new}, judged[:JUDGED]),
    )


async def _measure(
    ranker: Ranker,
    defaults: SearchDefaults,
    tenants: Mapping[str, TenantContext],
    judged: Sequence[JudgedQuery],
) -> dict[str, float | None]:
    means: dict[str, float | None] = dict.fromkeys(tenants)
    for name, tenant in tenants.items():
        gains = [
            ndcg(await _first_hits(ranker, defaults, tenant, q.query, "hybrid"), q.grades, DEPTH)
            for q in judged
        ]
        if gains:
            means[name] = round(sum(gains) / len(gains), 4)
    return means


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
