"""Maximal marginal relevance, with vectors of known similarity."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.knowledge.search.ranking import Candidate
from app.knowledge.search.reranking import spread
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs

pytestmark = pytest.mark.own_tenants

A, B, C = (UUID(int=n) for n in (1, 2, 3))
VECTORS = {
    A: np.array([1.0, 0.0], np.float32),
    B: np.array([1.0, 0.0], np.float32),
    C: np.array([0.0, 1.0], np.float32),
}


def ranking() -> list[Candidate]:
    now = datetime.now(UTC)
    return [Candidate(i, now, score=s) for i, s in ((A, 1.0), (B, 0.9), (C, 0.5))]


def test_diversity_of_zero_keeps_the_order() -> None:
    assert [c.entry_id for c in spread(ranking(), VECTORS, 0.0)] == [A, B, C]


def test_diversity_ranks_a_copy_of_the_best_hit_below_a_different_hit() -> None:
    # B: 0.5 * 0.9 - 0.5 * 1 = -0.05; C: 0.5 * 0.5 - 0.5 * 0 = 0.25
    assert [c.entry_id for c in spread(ranking(), VECTORS, 0.5)] == [A, C, B]


def test_diversity_does_not_change_scores_or_candidates() -> None:
    reordered = spread(ranking(), VECTORS, 1.0)
    assert sorted((c.entry_id, c.score) for c in reordered) == [(A, 1.0), (B, 0.9), (C, 0.5)]


def test_diversity_treats_an_entry_without_a_vector_as_different_from_all() -> None:
    vectors = {i: v for i, v in VECTORS.items() if i != B}
    assert [c.entry_id for c in spread(ranking(), vectors, 0.5)] == [A, B, C]


def test_diversity_of_no_hits_is_empty() -> None:
    assert spread([], {}, 0.5) == []


@pytest.mark.parametrize("fusion", ["rrf", "score"])
async def test_diversity_limits_chunks_of_one_asset(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs, fusion: Any
) -> None:
    d = failing_provider.direction
    failing_provider.vectors["harbour"] = d(1)
    failing_provider.default = d(1, 0.1)
    text = "\n\n".join(f"# Part {n}\n\n" + f"The harbour has berth {n}. " * 40 for n in range(6))
    await services.assets.upload(tenant.id, Upload("harbour.md", text.encode()))
    await run_jobs()
    failing_provider.vectors["Another view of the harbour"] = d(0.7, -0.7)
    other, _ = await services.entries.create(tenant.id, EntryDraft(content="Another view of the harbour"))

    async def page(diversity: float) -> list[UUID]:
        query = SearchQuery(query="harbour", mode="semantic", fusion=fusion, limit=3, diversity=diversity)
        return [hit.id for hit in await services.search.search(tenant.id, query)]

    assert other.id not in await page(0)
    assert (await page(0.7))[1] == other.id
    everything = SearchQuery(query="harbour", fusion=fusion, limit=50)
    diverse = SearchQuery(query="harbour", fusion=fusion, limit=50, diversity=1)
    plain, reordered = [
        {hit.id: hit.score for hit in await services.search.search(tenant.id, query)} for query in (everything, diverse)
    ]
    assert plain == reordered, "the same hits with the same scores, in another order"
