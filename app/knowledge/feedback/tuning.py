"""Weights that suit a tenant's own queries better, applied by themselves where feedback leaves no doubt."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from uuid import UUID

from app.db.database import Database
from app.db.queries.search import feedback as db
from app.errors import EmbeddingUnavailable
from app.knowledge.feedback.gain import difference_interval, ndcg
from app.knowledge.feedback.service import JudgedQuery, judge_queries
from app.knowledge.search.checks import MAX_QUERY_LENGTH
from app.knowledge.search.plan import SearchDefaults, make_plan
from app.knowledge.search.query import SearchQuery
from app.knowledge.search.ranker import Ranker
from app.knowledge.search.ranking.fusion import fuse, lift_identified, rank
from app.knowledge.tenants.context import TenantContext
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.tenants.settings import TunedWeights
from app.knowledge.tenants.stored_settings import store_tuned
from app.knowledge.vocabulary import Weights

log = logging.getLogger("app.knowledge.feedback")

DEPTH = 10
FEWEST = 50
"""Judged queries below which nothing is changed: the interval of fewer is wide, and depends on a few callers."""

MOST = 200
"""Judged queries that are run; this takes about 2 s."""

SEMANTIC_WEIGHTS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
CONFIDENCE = 0.99
"""Of the interval above 0. The best of seven weights is compared, so that 95 % would be too little."""


class WeightTuner:
    """Measures other weights of a tenant's fusion on its judged queries, and applies those that are surely better."""

    def __init__(
        self,
        database: Database,
        tenants: TenantDirectory,
        ranker: Ranker,
        defaults: SearchDefaults,
        *,
        fewest: int = FEWEST,
    ) -> None:
        self._fewest = fewest
        self._database = database
        self._tenants = tenants
        self._ranker = ranker
        self._defaults = defaults
        self._measured: dict[UUID, int] = {}
        """A hash of the judgements that were measured last, by tenant, so that they are not measured again."""

    async def tune(self, tenant_id: UUID) -> TunedWeights | None:
        """Apply better weights, if there are any; return them.

        Nothing is done if the tenant has chosen weights itself, has switched `auto_tune` off, keeps no queries, or has
        fewer than `fewest` judged queries. Searches of the measurement are not recorded. Raises TenantNotFound and
        DatabaseUnavailable.
        """
        tenant = await self._tenants.context(tenant_id)
        settings = tenant.settings
        if not settings.auto_tune or not settings.keep_query_text or settings.weights is not None:
            return None
        async with self._database.tenant_session(tenant_id) as session:
            judged = judge_queries(await db.list_judgements(session))
        seen = hash((settings.fusion, settings.tuned, *((q.query, *q.grades.items()) for q in judged)))
        if len(judged) < self._fewest or self._measured.get(tenant_id) == seen:
            return None
        try:
            found = await self._measure(tenant, judged[:MOST])
        except EmbeddingUnavailable:
            return None  # measured at the next sweep
        self._measured[tenant_id] = seen
        if found is None:
            return None
        async with self._database.tenant_session(tenant_id) as session:
            if not await store_tuned(session, found):
                return None
        self._tenants.forget(tenant_id)
        log.info("weights tuned", extra={"tenant_id": str(tenant_id), "queries": found.queries})
        return found

    async def _measure(self, tenant: TenantContext, judged: Sequence[JudgedQuery]) -> TunedWeights | None:
        current = make_plan(SearchQuery(query="current"), tenant, self._defaults).weights
        others = [w for s in SEMANTIC_WEIGHTS if (w := Weights(s, round(1 - s, 10))) != current]
        values: dict[Weights, list[float]] = {w: [] for w in (current, *others)}
        for query in judged:
            rankings = await self._rank(tenant, query, values)
            for weights, found in values.items():
                found.append(ndcg(rankings[weights], query.grades, DEPTH))
        best = max(others, key=lambda w: fmean(values[w]))
        low, high = difference_interval(values[current], values[best], confidence=CONFIDENCE)
        if low <= 0:
            return None
        gain = fmean(values[best]) - fmean(values[current])
        return TunedWeights(tenant.settings.fusion, best, current, len(judged), round(gain, 4), low, high)

    async def _rank(
        self, tenant: TenantContext, query: JudgedQuery, choices: Iterable[Weights]
    ) -> dict[Weights, list[UUID]]:
        """The ranking with each of the weights; the legs run once, since their hits do not depend on weights."""
        # The tenant's max_limit must not apply here.
        free = replace(tenant, settings=replace(tenant.settings, max_limit=None))
        plan = make_plan(SearchQuery(query=query.query[:MAX_QUERY_LENGTH], limit=DEPTH), free, self._defaults)
        rankings: dict[Weights, list[UUID]] = {}
        async with self._ranker.run(plan) as ranked:
            if ranked.legs.failure is not None:
                raise ranked.legs.failure
            for weights in choices:
                candidates = [replace(c, boosts={}) for c in ranked.candidates]
                fuse(
                    candidates,
                    plan.fusion,
                    weights,
                    ranked.legs.keyword_scale,
                    threshold=tenant.model.similarity_threshold,
                )
                if ranked.legs.whole:
                    lift_identified(candidates)
                rankings[weights] = [c.entry_id for c in rank(candidates)]
        return rankings
