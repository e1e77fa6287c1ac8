"""Measure how much a tenant's search results change with its embedding model, and whether they get worse."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Literal
from uuid import UUID

from app.db.database import Database
from app.db.queries.search.feedback import list_judgements
from app.db.queries.work.reembedding import (
    Comparison,
    Quality,
    SampledQuery,
    Source,
    count_visible,
    sample_queries,
)
from app.knowledge.feedback.gain import difference_interval, ndcg
from app.knowledge.feedback.service import JudgedQuery, judge_queries
from app.knowledge.search.checks import MAX_QUERY_LENGTH
from app.knowledge.search.plan import SearchDefaults, make_plan
from app.knowledge.search.query import SearchQuery
from app.knowledge.search.ranker import Ranker
from app.knowledge.tenants.context import TenantContext

DEPTH = 10
SHARE = 10
"""At most a tenth of the entries are compared as first hits: lists of vectors without meaning then share a tenth."""

QUERIES = 50
"""Queries to compare: this gives the share of equal hits to within about 0.05."""

JUDGED = 200
"""Most judged queries that are run on both models."""

Mode = Literal["hybrid", "semantic"]


class ModelComparer:
    """Runs the same queries on two models of a tenant, without recording them."""

    def __init__(self, database: Database, ranker: Ranker, defaults: SearchDefaults) -> None:
        self._database = database
        self._ranker = ranker
        self._defaults = defaults

    async def compare(self, old: TenantContext, new: TenantContext) -> Comparison:
        """Compare on the tenant's own queries and on titles, and on queries with feedback.

        Raises EmbeddingUnavailable when a query cannot be embedded, and DatabaseUnavailable.
        """
        async with self._database.tenant_session(old.tenant_id) as session:
            entries = await count_visible(session, SHARE * DEPTH)
            sample = await sample_queries(session, QUERIES)
            judged = judge_queries(await list_judgements(session))
        return await self.ask(old, new, sample, judged, depth=entries // SHARE)

    async def ask(
        self,
        old: TenantContext,
        new: TenantContext,
        sample: Sequence[SampledQuery],
        judged: Sequence[JudgedQuery] = (),
        *,
        depth: int = DEPTH,
    ) -> Comparison:
        """Like `compare`, on the given queries, and on the first `depth` hits."""
        overlaps: list[float] = []
        semantic: list[float] = []
        compared: list[SampledQuery] = []
        same = empty = 0
        for query in sample if depth else ():
            text = query.text.strip()[:MAX_QUERY_LENGTH]
            if not text:
                continue
            before, after = [await self._first_hits(t, text, "semantic", depth, query) for t in (old, new)]
            if not before and not after:
                continue  # two empty lists show nothing
            compared.append(query)
            semantic.append(share_in_common(before, after))
            same += before == after
            empty += not after
            before, after = [await self._first_hits(t, text, "hybrid", depth, query) for t in (old, new)]
            overlaps.append(share_in_common(before, after))
        judged = judged[:JUDGED]
        return Comparison(
            queries=len(compared),
            source=_name_source(compared),
            depth=depth,
            overlap=_mean(overlaps),
            semantic_overlap=_mean(semantic),
            same=same,
            empty=empty,
            judgements=sum(len(query.grades) for query in judged),
            judged=len(judged),
            quality=await self._measure(old, new, judged, "hybrid"),
            semantic_quality=await self._measure(old, new, judged, "semantic"),
        )

    async def _measure(
        self, old: TenantContext, new: TenantContext, judged: Sequence[JudgedQuery], mode: Mode
    ) -> Quality | None:
        if not judged:
            return None
        before, after = [
            [ndcg(await self._first_hits(tenant, q.query, mode, DEPTH), q.grades, DEPTH) for q in judged]
            for tenant in (old, new)
        ]
        low, high = difference_interval(before, after)
        return Quality(old=round(fmean(before), 4), new=round(fmean(after), 4), low=low, high=high)

    async def _first_hits(
        self, tenant: TenantContext, text: str, mode: Mode, depth: int, query: SampledQuery | None = None
    ) -> list[UUID]:
        """The first hits, without the entry whose title the query is: any model finds that one."""
        limit = min(DEPTH, tenant.settings.max_limit or DEPTH)
        plan = make_plan(
            SearchQuery(query=text, mode=mode, limit=limit, rerank=False), tenant, self._defaults
        )
        async with self._ranker.run(plan) as ranked:
            if ranked.legs.failure is not None:
                raise ranked.legs.failure
            found = [candidate.entry_id for candidate in ranked.candidates]
        return [entry_id for entry_id in found if query is None or entry_id != query.entry_id][:depth]


def share_in_common(first: Sequence[UUID], second: Sequence[UUID]) -> float:
    """The share of the longer list that both contain; 1 for two empty lists."""
    longest = max(len(first), len(second))
    return len(set(first) & set(second)) / longest if longest else 1.0


def _name_source(queries: Sequence[SampledQuery]) -> Source | None:
    if not queries:
        return None
    origins = {query.entry_id is None for query in queries}
    return "both" if len(origins) == 2 else "queries" if origins == {True} else "titles"


def _mean(values: Sequence[float]) -> float | None:
    return round(fmean(values), 4) if values else None
