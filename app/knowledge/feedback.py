"""Store and report feedback on hits, and tune a tenant's weights with it."""

import logging
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import timedelta
from statistics import fmean
from typing import TypeVar
from uuid import UUID

import asyncpg
import numpy as np

from app.contract.fields import MAX_QUERY_LENGTH
from app.contract.receipts import Feedback, FeedbackReport
from app.contract.search import SearchQuery, Weights
from app.contract.settings import TunedWeights
from app.db.database import Database
from app.db.queries import audit
from app.db.queries import receipts as db
from app.db.queries.receipts import Judgement
from app.errors import EmbeddingUnavailable, EntryNotFound, InvalidInput, SearchNotFound
from app.knowledge.audit import AuditTrail
from app.knowledge.entries.reading import AccessCounter
from app.knowledge.search.journal import SearchJournal
from app.knowledge.search.plan import SearchDefaults, make_plan
from app.knowledge.search.ranker import Ranker, rank_with
from app.knowledge.tenants.directory import TenantContext, TenantDirectory, store_tuned

K = TypeVar("K", bound=Hashable)

RESAMPLES = 10_000
"""Samples of the bootstrap; the bounds of its interval then vary by less than 0.001."""
SEED = 1


def ndcg(ranking: Sequence[K], grades: Mapping[K, float], k: int = 10) -> float:
    """Normalised discounted cumulative gain of the first `k`, 0 to 1.

    DCG = sum over ranks r = 1..k of grade / log2(r + 1), divided by the DCG of the best possible ranking of all
    judged documents; grades of 0 or less and unjudged documents add nothing. After Järvelin and Kekäläinen (2002),
    with linear gain as in trec_eval's `ndcg_cut` and BEIR. 0 when no document is relevant.
    """
    gains = [max(grades.get(document, 0.0), 0.0) for document in ranking[:k]]
    ideal = sorted((max(grade, 0.0) for grade in grades.values()), reverse=True)[:k]
    best = _discounted(ideal)
    return _discounted(gains) / best if best > 0 else 0.0


def _discounted(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def difference_interval(old: Sequence[float], new: Sequence[float], *, confidence: float = 0.95) -> tuple[float, float]:
    """The percentile interval of the mean of `new - old`, from a bootstrap of the pairs (Efron, 1979)."""
    differences = np.asarray(new) - np.asarray(old)
    drawn = np.random.default_rng(SEED).integers(0, len(differences), (RESAMPLES, len(differences)))
    tail = 50 * (1 - confidence)
    low, high = np.percentile(differences[drawn].mean(axis=1), [tail, 100 - tail])
    return round(float(low), 4), round(float(high), 4)


REPORTED = timedelta(days=30)
"""Period of the report; searches without results are kept for the same time."""
MAX_LISTED = 50


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query of the tenant, with entries that were judged relevant (1.0) or not (0.0)."""

    query: str
    grades: Mapping[UUID, float]


@dataclass(eq=False)
class FeedbackService:
    """Stores feedback on searches of the last 24 hours, and reports on it."""

    database: Database
    trail: AuditTrail
    tenants: TenantDirectory
    journal: SearchJournal
    accesses: AccessCounter

    async def give(self, tenant_id: UUID, subject: str, search_id: UUID, entry_id: UUID, relevant: bool) -> Feedback:
        """Store a caller's judgement of a hit of its own search; it replaces an earlier judgement of the hit.
        A relevant hit counts as read.

        The query is stored with it only if the tenant keeps queries. Raises SearchNotFound (also for another caller's
        search), InvalidInput for an entry that the search did not find, EntryNotFound for an entry that was deleted, or
        that the caller may not read any more.
        """
        async with self.trail.attempt(tenant_id, subject, "feedback.write", [search_id, entry_id]):
            kept = await self.journal.find(tenant_id, search_id)
            if kept is None or kept.receipt.subject != subject:
                raise SearchNotFound("you ran no search with this id in the last 24 hours")
            receipt = kept.receipt
            if entry_id not in {candidate.id for candidate in receipt.ranking}:
                raise InvalidInput.of("entry_id", "must be a hit of that search")
            settings = (await self.tenants.context(tenant_id)).settings
            query = receipt.query if settings.keep_query_text else None
            try:
                async with self.database.tenant_session(tenant_id) as session:
                    at = await db.put_feedback(session, search_id, entry_id, subject, relevant, query)
                    detail = {"relevant": relevant}
                    await audit.write_audit(session, subject, "feedback.write", [search_id, entry_id], detail)
            except (asyncpg.ForeignKeyViolationError, asyncpg.InsufficientPrivilegeError):
                raise EntryNotFound("the entry no longer exists") from None
        if relevant:
            self.accesses.note(tenant_id, entry_id)
        return Feedback(search_id, entry_id, relevant, at)

    async def report(self, tenant_id: UUID, *, reader: str | None = None) -> FeedbackReport:
        """Report searches without results and disliked hits; with `reader`, recorded in the audit trail."""
        kept = (await self.tenants.context(tenant_id)).settings.keep_query_text
        async with self.database.tenant_session(tenant_id) as session:
            counts = await db.count_feedback(session, REPORTED)
            empty = await db.list_empty_searches(session, REPORTED, MAX_LISTED) if kept else []
            disliked = await db.list_disliked(session, REPORTED, MAX_LISTED)
            await self.trail.note_read(session, reader, "feedback.read")
        return FeedbackReport(
            days=REPORTED.days,
            queries_kept=kept,
            relevant=counts["relevant"],
            not_relevant=counts["not_relevant"],
            searches_without_results=counts["without_results"],
            empty_searches=empty,
            disliked=disliked if kept else [replace(entry, queries=[]) for entry in disliked],
        )

    async def judged_queries(self, tenant_id: UUID, *, reader: str | None = None) -> list[JudgedQuery]:
        """List queries with at least one relevant entry; with `reader`, recorded in the audit trail."""
        async with self.database.tenant_session(tenant_id) as session:
            rows = await db.list_judgements(session)
            await self.trail.note_read(session, reader, "feedback.read")
        return judge_queries(rows)


def judge_queries(judgements: Sequence[Judgement]) -> list[JudgedQuery]:
    """Group judgements by query; queries without a relevant entry are omitted."""
    grades: dict[str, dict[UUID, float]] = {}
    for judgement in judgements:
        grades.setdefault(judgement.query, {})[judgement.entry_id] = float(judgement.relevant)
    return [JudgedQuery(query, found) for query, found in grades.items() if any(found.values())]


log = logging.getLogger("app.knowledge.feedback")

DEPTH = 10
FEWEST = 50
"""Judged queries below which nothing is changed: the interval of fewer is wide, and depends on a few callers."""

MOST = 200
"""Judged queries that are run; this takes about 2 s."""

SEMANTIC_WEIGHTS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
CONFIDENCE = 0.99
"""Of the interval above 0. The best of seven weights is compared, so that 95 % would be too little."""


@dataclass(eq=False)
class WeightTuner:
    """Measures other weights of a tenant's fusion on its judged queries, and applies significantly better ones."""

    database: Database
    tenants: TenantDirectory
    ranker: Ranker
    defaults: SearchDefaults
    _: KW_ONLY
    fewest: int = FEWEST

    def __post_init__(self) -> None:
        self._measured: dict[UUID, int] = {}
        """A hash of the judgements that were measured last, by tenant, so that they are not measured again."""

    async def tune(self, tenant_id: UUID) -> TunedWeights | None:
        """Apply better weights, if there are any; return them.

        Nothing is done if the tenant has chosen weights itself, has switched `auto_tune` off, keeps no queries, or has
        fewer than `fewest` judged queries. Searches of the measurement are not recorded. Raises TenantNotFound and
        DatabaseUnavailable.
        """
        tenant = await self.tenants.context(tenant_id)
        settings = tenant.settings
        if not settings.auto_tune or not settings.keep_query_text or settings.weights is not None:
            return None
        async with self.database.tenant_session(tenant_id) as session:
            judged = judge_queries(await db.list_judgements(session))
        seen = hash((settings.fusion, settings.tuned, *((q.query, *q.grades.items()) for q in judged)))
        if len(judged) < self.fewest or self._measured.get(tenant_id) == seen:
            return None
        try:
            found = await self._measure(tenant, judged[:MOST])
        except EmbeddingUnavailable:
            return None  # measured at the next sweep
        self._measured[tenant_id] = seen
        if found is None:
            return None
        async with self.database.tenant_session(tenant_id) as session:
            if not await store_tuned(session, found):
                return None
        self.tenants.forget(tenant_id)
        log.info("weights tuned", extra={"tenant_id": str(tenant_id), "queries": found.queries})
        return found

    async def _measure(self, tenant: TenantContext, judged: Sequence[JudgedQuery]) -> TunedWeights | None:
        current = make_plan(SearchQuery(query="current"), tenant, self.defaults).weights
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
        plan = make_plan(SearchQuery(query=query.query[:MAX_QUERY_LENGTH], limit=DEPTH), free, self.defaults)
        async with self.ranker.run(plan) as ranked:
            ranked.legs.embedding.raise_failure()
            return {weights: rank_with(ranked, weights) for weights in choices}
