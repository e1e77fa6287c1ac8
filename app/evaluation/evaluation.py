"""Evaluate one collection: run all judged queries through the service in each mode."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.composition.services import Services
from app.evaluation.baseline import is_baseline_installed, rank_by_bm25
from app.evaluation.bootstrap import Interval, compare_paired
from app.evaluation.collection import Collection
from app.evaluation.metrics import Scores, score_rankings
from app.evaluation.output.progress import ShowProgress
from app.evaluation.tenant import EvaluationFailed, fill_tenant, open_tenant
from app.knowledge.search.query import SearchQuery
from app.knowledge.vocabulary import Fusion, Mode

DEPTH = 100
CONCURRENCY = 2


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant of the search; `fusion` applies only to hybrid mode."""

    mode: Mode
    fusion: Fusion | None = None

    @property
    def label(self) -> str:
        """The name of the variant in reports."""
        return f"{self.mode} {self.fusion}" if self.fusion else self.mode


VARIANTS: tuple[Variant, ...] = (
    Variant("keyword"),
    Variant("semantic"),
    Variant("hybrid", "rrf"),
    Variant("hybrid", "score"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """The results of one variant; intervals are of nDCG@10, `seconds` is the median time of a search."""

    variant: Variant
    scores: Scores
    median_seconds: float
    against_baseline: Interval | None = None
    against_better_leg: Interval | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """The results of BM25 by bm25s on the same queries."""

    name: str
    scores: Scores


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All runs over one collection, and the times of the steps in seconds."""

    collection: Collection
    runs: Sequence[Run]
    baseline: Baseline | None
    seconds: Mapping[str, float]


async def evaluate(
    services: Services,
    collection: Collection,
    progress: ShowProgress,
    *,
    variants: Sequence[Variant] = VARIANTS,
    depth: int = DEPTH,
) -> Evaluation:
    """Fill a temporary tenant, search it, and delete it.

    Raises EvaluationFailed, InvalidInput, EmbeddingUnavailable and DatabaseUnavailable.

    A search requests `depth` hits, at most 100, and uses the defaults for everything else.
    """
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    rankings: dict[Variant, tuple[list[list[str]], float]] = {}
    async with open_tenant(services, collection.name) as tenant_id:
        documents = await fill_tenant(services, tenant_id, collection, progress)
        seconds["fill"] = time.perf_counter() - started
        for variant in variants:
            started = time.perf_counter()
            rankings[variant] = await search_all(
                services, tenant_id, collection, variant, documents, progress, depth
            )
            seconds[variant.label] = time.perf_counter() - started
    grades = [query.judgements for query in collection.queries]
    baseline = None
    if is_baseline_installed():
        bm25 = await asyncio.to_thread(rank_by_bm25, collection, depth)
        baseline = Baseline(bm25.name, score_rankings(bm25.rankings, grades))
    scores = {variant: score_rankings(found, grades) for variant, (found, _) in rankings.items()}
    legs = [s for v, s in scores.items() if v.mode != "hybrid"]
    better_leg = max(legs, key=lambda s: s.means["ndcg@10"]) if len(legs) > 1 else None
    runs = [
        Run(
            variant,
            found,
            rankings[variant][1],
            against_baseline=compare_paired(found.ndcg, baseline.scores.ndcg) if baseline else None,
            against_better_leg=(
                compare_paired(found.ndcg, better_leg.ndcg)
                if better_leg and variant.mode == "hybrid"
                else None
            ),
        )
        for variant, found in scores.items()
    ]
    return Evaluation(collection, runs, baseline, seconds)


async def search_all(
    services: Services,
    tenant_id: UUID,
    collection: Collection,
    variant: Variant,
    documents: Mapping[UUID, str],
    progress: ShowProgress,
    depth: int,
) -> tuple[list[list[str]], float]:
    """Rank the documents for each query; return their ids, and the median time of a search."""
    rankings: list[list[str]] = [[] for _ in collection.queries]
    times: list[float] = []
    waiting = iter(range(len(collection.queries)))

    with progress(f"{collection.name}: {variant.label}", len(rankings)) as report:

        async def search_in_turn() -> None:
            for place in waiting:
                query = SearchQuery(
                    query=collection.queries[place].text,
                    mode=variant.mode,
                    fusion=variant.fusion,
                    limit=depth,
                )
                started = time.perf_counter()
                result = await services.search.search(tenant_id, query, subject="evaluation")
                times.append(time.perf_counter() - started)
                if result.metadata.fallback_mode:
                    raise EvaluationFailed(
                        f"{services.provider.model.provider} gave no vector for query"
                        f" {collection.queries[place].id}; a keyword-only ranking is not measured as {variant.label}"
                    )
                rankings[place] = [documents[hit.id] for hit in result]
                report(len(times))

        searches = [asyncio.create_task(search_in_turn()) for _ in range(CONCURRENCY)]
        try:
            await asyncio.gather(*searches)
        finally:
            for search in searches:
                search.cancel()
            await asyncio.gather(*searches, return_exceptions=True)
    return rankings, sorted(times)[len(times) // 2]
