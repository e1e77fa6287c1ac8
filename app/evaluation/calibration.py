"""Measure the centre of a model: the mean similarity of best hits at which both legs deserve the same weight."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any
from uuid import UUID

import numpy as np

from app.composition.services import Services
from app.contract.fields import MAX_QUERY_LENGTH
from app.contract.search import SCORE_WEIGHTS, SearchQuery, Weights
from app.embeddings.cosines import cosine_stretch
from app.embeddings.provider import EmbeddingModel
from app.errors import InvalidInput
from app.evaluation.collection import Collection
from app.evaluation.evaluation import ShowProgress, fill_tenant, open_tenant
from app.evaluation.tuning import NothingToTuneBy
from app.knowledge.feedback import JudgedQuery, ndcg
from app.knowledge.search.plan import make_plan
from app.knowledge.search.ranker import rank_with
from app.knowledge.tenants.adaptation import weigh

DEPTH = 10

GRID = tuple(Weights(round(1 - n / 20, 2), n / 20) for n in range(21))
"""From the semantic leg only to the keyword leg only."""

STEP, REACH = 0.005, 0.25
"""Stretched cosine between the centres that are tried, and around the measured means."""

LOSS = 0.005
"""Most nDCG@10 that a centre may cost any of the measured collections, compared with equal weights."""

INDIFFERENT = 0.001
"""Mean nDCG@10 by which centres do not differ; the highest of them changes the weights least."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A collection or a tenant: the mean similarity of the best hits, and nDCG@10 by the keyword leg's weight."""

    name: str
    queries: int
    mean_similarity: float
    ndcg: Sequence[float]

    def at(self, weights: Weights) -> float:
        """NDCG@10 with these weights, between those that were measured."""
        return float(np.interp(weights.keyword, [w.keyword for w in GRID], self.ndcg))


@dataclass(frozen=True, slots=True)
class Calibration:
    """The centre of a model, and what it was measured on."""

    model: EmbeddingModel
    centre: float
    measured: Sequence[Measured]

    def weights(self, measured: Measured) -> Weights:
        """The weights that the collection gets with the centre."""
        return weigh(replace(self.model, centre=self.centre), measured.mean_similarity)

    def as_json(self) -> dict[str, Any]:
        """The figures as plain values."""
        rows = [asdict(m) | {"weights": asdict(self.weights(m)), "ndcg_at_weights": m.at(self.weights(m))}
                for m in self.measured]  # fmt: skip
        return {"model": asdict(self.model.info), "centre": self.centre, "measured": rows}


def choose_centre(model: EmbeddingModel, measured: Sequence[Measured]) -> float:
    """The centre with the highest mean nDCG@10 of those with which no collection loses more than LOSS."""
    stretch = cosine_stretch(model.similarity_threshold)
    means = [m.mean_similarity for m in measured]
    first, last = min(means) - REACH / stretch, max(means)
    tried: dict[float, float] = {}
    for centre in np.arange(last, first, -STEP / stretch):
        weights = [weigh(replace(model, centre=float(centre)), mean) for mean in means]
        gains = [m.at(w) - m.at(SCORE_WEIGHTS) for m, w in zip(measured, weights, strict=True)]
        if min(gains) >= -LOSS:
            tried[float(centre)] = fmean(gains)
    best = max(tried.values())
    return round(max(centre for centre, gain in tried.items() if gain >= best - INDIFFERENT), 3)


async def calibrate(
    services: Services, collections: Iterable[Collection], slugs: Sequence[str], progress: ShowProgress, *, reader: str
) -> Calibration:
    """Measure the service's model on judged collections, each in a temporary tenant, and on the feedback of tenants.

    Only the reads by `reader` are recorded, in the tenants' audit trails. Raises InvalidInput (a tenant with another
    model), TenantNotFound, NothingToTuneBy (a tenant without feedback), EvaluationFailed, EmbeddingUnavailable and
    DatabaseUnavailable.
    """
    measured: list[Measured] = []
    for collection in collections:
        for part in collection.tenants:
            async with open_tenant(services, part.name) as tenant_id:
                documents = await fill_tenant(services, tenant_id, part, progress)
                entries = {document: entry_id for entry_id, document in documents.items()}
                judged = [
                    JudgedQuery(q.text, {entries[d]: grade for d, grade in q.judgements.items() if d in entries})
                    for q in part.queries
                ]
                measured.append(await _measure(services, tenant_id, part.name, judged, progress))
    for slug in slugs:
        tenant = await services.tenants.find(slug)
        context = await services.tenants.context(tenant.id)
        if context.model.info != services.provider.model.info:
            raise InvalidInput.of("--tenant", f"{slug} uses {context.model.name}: run the command with that model")
        judged = await services.feedback.judged_queries(tenant.id, reader=reader)
        if not judged:
            raise NothingToTuneBy(f"tenant {slug} has no feedback with a query and a relevant hit")
        measured.append(await _measure(services, tenant.id, slug, judged, progress))
    model = services.provider.model
    return Calibration(model, choose_centre(model, measured), measured)


async def _measure(
    services: Services, tenant_id: UUID, name: str, judged: Sequence[JudgedQuery], progress: ShowProgress
) -> Measured:
    context = await services.tenants.context(tenant_id)
    free = replace(context, settings=replace(context.settings, max_limit=None))
    similarities: list[float] = []
    values: list[list[float]] = []
    with progress(f"{name}: questions", len(judged)) as report:
        for query in judged:
            wanted = SearchQuery(query=query.query[:MAX_QUERY_LENGTH], limit=DEPTH, fusion="score", rerank=False)
            async with services.ranker.run(make_plan(wanted, free, services.search.defaults)) as ranked:
                ranked.legs.embedding.raise_failure()
                values.append([ndcg(rank_with(ranked, weights), query.grades, DEPTH) for weights in GRID])
                similarities += [hit.value for hit in ranked.legs.semantic.hits[:1]] if ranked.legs.semantic else []
            report(len(values))
    if not similarities:
        raise NothingToTuneBy(f"{name}: no question has a semantic hit")
    return Measured(name, len(judged), fmean(similarities), [fmean(column) for column in zip(*values, strict=True)])


HEADINGS = ("collection", "queries", "mean similarity", "semantic", "keyword", "equal", "weights", "with them")


def rows_of(calibration: Calibration) -> list[tuple[str, ...]]:
    """The rows of the table: one for each collection."""
    rows: list[tuple[str, ...]] = []
    for m in calibration.measured:
        weights = calibration.weights(m)
        figures = (m.ndcg[0], m.ndcg[-1], m.at(SCORE_WEIGHTS), m.at(weights))
        semantic, keyword, equal, found = (f"{value:.4f}" for value in figures)
        shown = f"{weights.semantic:g}/{weights.keyword:g}"
        rows.append((m.name, str(m.queries), f"{m.mean_similarity:.3f}", semantic, keyword, equal, shown, found))
    return rows
