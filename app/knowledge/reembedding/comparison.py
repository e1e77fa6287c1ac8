"""Compare search results with two models, and decide whether a tenant switches without its admin."""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal
from uuid import UUID

from app.contract.fields import MAX_QUERY_LENGTH
from app.contract.models import Comparison, Decision, Quality, QueryOrigin
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.queries.receipts import list_judgements
from app.db.queries.reembedding import ChangeRow, SampledQuery, count_visible, sample_queries
from app.knowledge.feedback import JudgedQuery, difference_interval, judge_queries, ndcg
from app.knowledge.search.plan import SearchDefaults, make_plan
from app.knowledge.search.ranker import Ranker
from app.knowledge.tenants.directory import TenantContext

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
        plan = make_plan(SearchQuery(query=text, mode=mode, limit=limit, rerank=False), tenant, self._defaults)
        async with self._ranker.run(plan) as ranked:
            ranked.legs.embedding.raise_failure()
            found = [candidate.entry_id for candidate in ranked.candidates]
        return [entry_id for entry_id in found if query is None or entry_id != query.entry_id][:depth]


def share_in_common(first: Sequence[UUID], second: Sequence[UUID]) -> float:
    """The share of the longer list that both contain; 1 for two empty lists."""
    longest = max(len(first), len(second))
    return len(set(first) & set(second)) / longest if longest else 1.0


def _name_source(queries: Sequence[SampledQuery]) -> QueryOrigin | None:
    if not queries:
        return None
    origins = {query.entry_id is None for query in queries}
    return "both" if len(origins) == 2 else "queries" if origins == {True} else "titles"


def _mean(values: Sequence[float]) -> float | None:
    return round(fmean(values), 4) if values else None


MIN_JUDGEMENTS = 20
"""Judged entries from which on feedback decides; they must belong to at least `MIN_JUDGED_QUERIES` queries."""

MIN_JUDGED_QUERIES = 10
"""Fewer queries are too few to resample: a percentile interval of them is too narrow (Efron and Tibshirani, 1993)."""

LOSS = 0.05
"""Largest loss of nDCG, as a fraction of the old model's, that the interval may include. Smaller differences than 5 %
are not noticeable, according to Spärck Jones (1974)."""

MIN_QUERIES = 20
"""Queries that must be compared before the overlap decides: the standard error of their mean is at most 0.06."""


def decide(change: ChangeRow) -> Decision:
    """Decide from what is stored; the admin can switch in any case once the vectors are complete."""
    if change.rebuilds:
        return Decision(
            "automatic",
            "same_model",
            "the model stays the same: the new vectors of each entry are used at once, and nothing is compared",
        )
    if change.switch_at_overlap is None:
        return Decision("by_hand", "request", "the change was started for a switch by hand")
    if (found := change.comparison) is None:
        return Decision("undecided", None, "the models are compared once every entry has its new vectors")
    if change.vectors.refused and change.state == "ready":
        return Decision(
            "by_hand", "refused_entries", f"the new model's provider refuses {change.vectors.refused} entries"
        )
    if found.judgements >= MIN_JUDGEMENTS and found.judged >= MIN_JUDGED_QUERIES:
        return _judge(found)
    return _weigh_overlap(found, change.switch_at_overlap)


def _judge(found: Comparison) -> Decision:
    """By feedback, for searches with the tenant's settings and for the semantic leg alone."""
    for leg, quality in (("", found.quality), (" of the semantic leg", found.semantic_quality)):
        assert quality is not None
        allowed = -LOSS * quality.old
        figures = (
            f"nDCG@10{leg} on {found.judged} judged queries: {quality.old:.3f} with the old model, {quality.new:.3f}"
            f" with the new one, a difference of {quality.low:+.3f} to {quality.high:+.3f}"
        )
        if quality.low < allowed:
            return Decision("by_hand", "feedback", f"{figures}; a loss above {-allowed:.3f} is not excluded")
    return Decision("automatic", "feedback", f"{figures}; a loss above {-allowed:.3f} is excluded")


def _weigh_overlap(found: Comparison, least: float) -> Decision:
    if found.queries < MIN_QUERIES or found.semantic_overlap is None:
        return Decision(
            "by_hand",
            "too_little_evidence",
            f"only {found.queries} queries could be compared, and {found.judgements} judgements are on {found.judged}"
            f" queries; {MIN_QUERIES} queries are needed, or {MIN_JUDGEMENTS} judgements on {MIN_JUDGED_QUERIES}"
            " queries",
        )
    overlap = (
        f"the semantic leg shares {found.semantic_overlap:.0%} of the first {found.depth} hits of {found.queries}"
        f" queries; {least:.0%} are needed"
    )
    if found.semantic_overlap < least:
        return Decision("by_hand", "semantic_overlap", overlap)
    for quality in (found.quality, found.semantic_quality):
        # Little feedback cannot cause a switch, but it can prevent one.
        if quality is not None and quality.new < quality.old * (1 - LOSS):
            return Decision(
                "by_hand",
                "feedback",
                f"{overlap}, but nDCG@10 on {found.judged} judged queries falls from {quality.old:.3f} to"
                f" {quality.new:.3f}",
            )
    return Decision("automatic", "semantic_overlap", overlap)
