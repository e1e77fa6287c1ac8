"""Measure other weights and fusions on a tenant's own searches, using the feedback on their hits."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any
from uuid import UUID

from app.composition.services import Services
from app.contract.fields import MAX_QUERY_LENGTH
from app.contract.search import SearchQuery, Weights
from app.contract.vocabulary import Fusion
from app.errors import KnowledgeError
from app.evaluation.evaluation import ShowProgress
from app.evaluation.metrics import Interval, compare_paired
from app.evaluation.report import describe
from app.knowledge.feedback import JudgedQuery, ndcg
from app.knowledge.search.plan import make_plan
from app.knowledge.tenants.directory import TenantContext

DEPTH = 10
FEW = 20
"""Number of judged queries below which differences mean little."""

GRID: tuple[tuple[Fusion, float], ...] = (
    *(("rrf", weight) for weight in (0.0, 0.3, 0.5, 0.7, 1.0)),
    *(("score", weight) for weight in (0.2, 0.3, 0.4, 0.5, 0.6, 0.8)),
)
"""Fusions, each with a semantic weight; with 0 and 1 the order is that of a single leg."""


class NothingToTuneBy(KnowledgeError):
    """The tenant has no feedback with queries; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A fusion with weights, and the quality of its rankings.

    Attributes:
        ndcg: mean nDCG@10; unjudged hits count as not relevant.
        ndcg_judged: the same without unjudged hits (Sakai, 2007), so that new hits of a choice do not count against it.
        against_current: difference of `ndcg` to the current settings, with its interval; None for these themselves.
    """

    fusion: Fusion
    weights: Weights
    current: bool
    ndcg: float
    ndcg_judged: float
    against_current: Interval | None


@dataclass(frozen=True, slots=True)
class Tuning:
    """Choices measured on the judged queries of one tenant: the current one first, then the others, best first."""

    tenant: str
    queries: int
    judgements: int
    choices: Sequence[Choice]

    def as_json(self) -> dict[str, Any]:
        """The figures as plain values."""
        return asdict(self)

    @property
    def remark(self) -> str:
        """A recommendation in one line."""
        best = self.choices[1]
        if self.queries < FEW:
            return f"{self.queries} judged queries are few: gather feedback on {FEW} or more before changing anything"
        if best.against_current is None or best.against_current.low <= 0:
            return "no other choice is better by more than chance: keep the current settings"
        weights = best.weights
        return (
            f"better by more than chance: fusion {best.fusion}, weights {weights.semantic:g} and {weights.keyword:g};"
            " PATCH /admin/settings sets them"
        )


async def tune(services: Services, slug: str, progress: ShowProgress, *, reader: str) -> Tuning:
    """Run the tenant's judged queries with its current settings and with each of GRID.

    Only the read by `reader` is recorded, in the audit trail. Raises TenantNotFound, NothingToTuneBy,
    EmbeddingUnavailable (keyword-only rankings would prove nothing) and DatabaseUnavailable.
    """
    tenant = await services.tenants.find(slug)
    context = await services.tenants.context(tenant.id)
    judged = await services.feedback.judged_queries(tenant.id, reader=reader)
    if not judged:
        kept = "" if context.settings.keep_query_text else "; switch keep_query_text on, so that queries are kept"
        raise NothingToTuneBy(f"tenant {slug} has no feedback with a query and a relevant hit{kept}")
    settled = make_plan(SearchQuery(query="current"), context, services.search.defaults)
    current = (settled.fusion, settled.weights)
    choices: list[tuple[Any, Weights]] = [
        current,
        *(
            (fusion, weights)
            for fusion, meaning in GRID
            if (fusion, weights := Weights(meaning, round(1 - meaning, 10))) != current
        ),
    ]
    values: list[list[float]] = [[] for _ in choices]
    of_judged: list[list[float]] = [[] for _ in choices]
    with progress(f"{slug}: judged queries", len(judged)) as report:
        for done, query in enumerate(judged, 1):
            for place, (fusion, weights) in enumerate(choices):
                ranking = await _rank(services, context, query, fusion, weights)
                values[place].append(ndcg(ranking, query.grades, DEPTH))
                of_judged[place].append(ndcg([i for i in ranking if i in query.grades], query.grades, DEPTH))
            report(done)
    made = [
        Choice(
            fusion=fusion,
            weights=weights,
            current=place == 0,
            ndcg=fmean(values[place]),
            ndcg_judged=fmean(of_judged[place]),
            against_current=compare_paired(values[place], values[0]) if place else None,
        )
        for place, (fusion, weights) in enumerate(choices)
    ]
    others = sorted(made[1:], key=lambda c: (-c.ndcg, -c.ndcg_judged))
    return Tuning(slug, len(judged), sum(len(q.grades) for q in judged), [made[0], *others])


async def _rank(
    services: Services, tenant: TenantContext, query: JudgedQuery, fusion: Fusion, weights: Weights
) -> list[UUID]:
    wanted = SearchQuery(
        query=query.query[:MAX_QUERY_LENGTH], limit=DEPTH, fusion=fusion, weights=weights, rerank=False
    )
    # The tenant's max_limit must not apply here.
    free = replace(tenant, settings=replace(tenant.settings, max_limit=None))
    async with services.ranker.run(make_plan(wanted, free, services.search.defaults)) as ranked:
        ranked.legs.embedding.raise_failure()
        return [candidate.entry_id for candidate in ranked.candidates]


def rows_of(tuning: Tuning) -> list[tuple[str, ...]]:
    """The rows of the table: one for each choice."""
    return [
        (
            f"{c.fusion} {c.weights.semantic:g}/{c.weights.keyword:g}{' (current)' if c.current else ''}",
            f"{c.ndcg:.4f}",
            f"{c.ndcg_judged:.4f}",
            describe(c.against_current),
        )
        for c in tuning.choices
    ]


HEADINGS = ("fusion, meaning/words", "nDCG@10", "nDCG@10, judged hits only", "nDCG − current")
