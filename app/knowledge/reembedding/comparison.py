"""Measure how much a tenant's search results change with its embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Literal
from uuid import UUID

from app.db.database import Database
from app.db.queries.search.feedback import list_judgements
from app.db.queries.work.reembedding import Comparison, SampledQueries, sample_queries
from app.knowledge.feedback.gain import ndcg
from app.knowledge.feedback.service import JudgedQuery, judge_queries
from app.knowledge.search.plan import SearchDefaults, make_plan
from app.knowledge.search.query import MAX_QUERY_LENGTH, SearchQuery
from app.knowledge.search.ranker import Ranker
from app.knowledge.tenants.directory import TenantContext

DEPTH = 10
QUERIES = 50
"""Queries to compare: this gives the share of equal hits to within about 0.05."""

JUDGED = 200
"""Most judged queries that are run on both models."""


class ModelComparer:
    """Runs the same queries on two models of a tenant, without recording them."""

    def __init__(self, database: Database, ranker: Ranker, defaults: SearchDefaults) -> None:
        self._database = database
        self._ranker = ranker
        self._defaults = defaults

    async def compare(self, old: TenantContext, new: TenantContext) -> Comparison:
        """Compare on the tenant's own queries, else on titles, and on queries with feedback.

        Raises EmbeddingUnavailable when a query cannot be embedded, and DatabaseUnavailable.
        """
        async with self._database.tenant_session(old.tenant_id) as session:
            sample = await sample_queries(session, QUERIES)
            judged = judge_queries(await list_judgements(session))
        return await self.ask(old, new, sample, judged)

    async def ask(
        self,
        old: TenantContext,
        new: TenantContext,
        sample: SampledQueries,
        judged: Sequence[JudgedQuery] = (),
    ) -> Comparison:
        """Like `compare`, on the given queries."""
        overlaps: list[float] = []
        semantic: list[float] = []
        empty = 0
        for text in (t.strip()[:MAX_QUERY_LENGTH] for t in sample.texts if t.strip()):
            before, after = [await self._first_hits(tenant, text) for tenant in (old, new)]
            overlaps.append(share_in_common(before, after))
            before, after = [await self._first_hits(tenant, text, "semantic") for tenant in (old, new)]
            semantic.append(share_in_common(before, after))
            empty += bool(before) and not after
        judged = judged[:JUDGED]
        return Comparison(
            queries=len(overlaps),
            source=sample.source,
            overlap=_mean(overlaps) if overlaps else 1.0,
            semantic_overlap=_mean(semantic) if semantic else 1.0,
            same=sum(share == 1 for share in overlaps),
            empty=empty,
            judged=len(judged),
            ndcg_old=await self._measure(old, judged) if judged else None,
            ndcg_new=await self._measure(new, judged) if judged else None,
        )

    async def _measure(self, tenant: TenantContext, judged: Sequence[JudgedQuery]) -> float:
        return _mean([ndcg(await self._first_hits(tenant, q.query), q.grades, DEPTH) for q in judged])

    async def _first_hits(
        self, tenant: TenantContext, text: str, mode: Literal["hybrid", "semantic"] = "hybrid"
    ) -> list[UUID]:
        limit = min(DEPTH, tenant.settings.max_limit or DEPTH)
        plan = make_plan(SearchQuery(query=text, mode=mode, limit=limit), tenant, self._defaults)
        async with self._ranker.run(plan) as ranked:
            if ranked.legs.failure is not None:
                raise ranked.legs.failure
            return [candidate.entry_id for candidate in ranked.candidates[:limit]]


def share_in_common(first: Sequence[UUID], second: Sequence[UUID]) -> float:
    """The share of the longer list that both contain; 1 for two empty lists."""
    longest = max(len(first), len(second))
    return len(set(first) & set(second)) / longest if longest else 1.0


def _mean(values: Sequence[float]) -> float:
    return round(fmean(values), 4)
