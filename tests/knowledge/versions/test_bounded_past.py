"""A search of the past looks at a bounded number of former versions, and says when that was not enough."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.contract.vocabulary import Mode
from app.db.queries import vectors
from app.knowledge.search.plan import SearchDefaults
from app.knowledge.search.service import KnowledgeSearchService
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.searching import make_search
from tests.knowledge.conftest import RunJobs
from tests.knowledge.versions.keeping import now

pytestmark = pytest.mark.own_tenants

VERSIONS = 60
FOUND: dict[str, tuple[dict[str, Any], set[int]]] = {
    "a rare tag": ({"tags": ["rare"]}, {7, 11, 37}),
    "two rare tags": ({"tags": ["rare", "first"], "tags_match": "all"}, {11}),
    "rare metadata": ({"metadata": {"shelf": 7}}, {7}),
    "a rare condition": ({"filter": {"field": "metadata.shelf", "eq": 7}}, {7}),
    "no such tag": ({"tags": ["nowhere"]}, set()),
}
"""Filters that indexes of former versions answer, and the numbers of the versions that pass."""
BOUNDED: dict[str, dict[str, Any]] = {
    "all": {},
    "a frequent tag": {"tags": ["common"]},
    "no confidence": {"min_confidence": 0.9},
    "no scope": {"scope": "project"},
    "a frequent tag and no scope": {"tags": ["common"], "scope": "project"},
}


@pytest.fixture
async def past(services: Services, keeper: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs) -> datetime:
    """A time of which all versions are former ones; the lower the number of one, the nearer it is to the query."""
    failing_provider.default = failing_provider.direction(1)
    for n in range(VERSIONS):
        failing_provider.vectors[f"harbour quay number {n}"] = failing_provider.direction(1, n / 10)
    drafts = [
        EntryDraft(
            content=f"harbour quay number {n}",
            external_id=str(n),
            tags=["rare", "first"] if n == 11 else ["rare"] if n % 30 == 7 else ["common"],
            confidence=0.5,
            metadata={"shelf": n},
        )
        for n in range(VERSIONS)
    ]
    await services.entries.create_many(keeper.id, drafts)
    await run_jobs()
    moment = now()
    await services.entries.create_many(
        keeper.id, [EntryDraft(content=f"mountain {n}", external_id=str(n)) for n in range(VERSIONS)]
    )
    await run_jobs()
    return moment


async def ask(
    search: KnowledgeSearchService, tenant: Tenant, mode: Mode, as_of: datetime, values: dict[str, Any]
) -> SearchResult:
    query = SearchQuery(query="harbour quay", mode=mode, as_of=as_of, similarity_threshold=0, limit=50, **values)
    return await search.search(tenant.id, query)


@pytest.fixture
def bounded(services: Services, monkeypatch: pytest.MonkeyPatch) -> KnowledgeSearchService:
    """A search that looks at 5 versions in the semantic leg, and at about as many in the keyword leg."""
    monkeypatch.setattr(vectors, "MOST_CHECKED", 5)
    return make_search(services, defaults=SearchDefaults(keyword_budget=1))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["semantic", "keyword"])
@pytest.mark.parametrize("name", FOUND)
async def test_a_filter_with_an_index_is_answered_in_full(
    services: Services, keeper: Tenant, past: datetime, bounded: KnowledgeSearchService, mode: Mode, name: str
) -> None:
    values, expected = FOUND[name]
    found = await ask(bounded, keeper, mode, past, values)
    whole = await ask(services.search, keeper, mode, past, values)
    assert {hit.content for hit in found} == {f"harbour quay number {n}" for n in expected}
    assert found.metadata.exact
    assert [hit.id for hit in found] == [hit.id for hit in whole]
    # Of frequent words, a smaller budget counts fewer entries.
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in whole], rel=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["semantic", "keyword"])
@pytest.mark.parametrize("name", BOUNDED)
async def test_a_search_that_did_not_look_at_all_is_not_exact(
    keeper: Tenant, past: datetime, bounded: KnowledgeSearchService, mode: Mode, name: str
) -> None:
    found = await ask(bounded, keeper, mode, past, BOUNDED[name])
    assert not found.metadata.exact
    passing = VERSIONS if name == "all" else VERSIONS - 3 if name == "a frequent tag" else 0
    assert bool(found.results) == bool(passing)
    assert found.metadata.estimated_matches <= passing


@pytest.mark.parametrize("name", BOUNDED)
async def test_the_same_search_is_exact_within_the_bounds(
    services: Services, keeper: Tenant, past: datetime, name: str
) -> None:
    for mode in ("semantic", "keyword"):
        found = await ask(services.search, keeper, mode, past, BOUNDED[name])
        assert found.metadata.exact
        passing = VERSIONS if name == "all" else VERSIONS - 3 if name == "a frequent tag" else 0
        assert len(found.results) == min(passing, 50)


async def test_the_nearest_of_the_checked_versions_are_exact(
    services: Services, keeper: Tenant, past: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All vectors are compared, and the nearest versions pass: no other can be nearer."""
    monkeypatch.setattr(vectors, "MOST_CHECKED", 40)
    query = SearchQuery(query="harbour quay", mode="semantic", as_of=past, similarity_threshold=0, limit=5)
    whole = await ask(services.search, keeper, "semantic", past, {})
    found = await services.search.search(keeper.id, query)
    assert found.metadata.exact
    assert [hit.id for hit in found] == [hit.id for hit in whole][:5]
    assert [hit.content for hit in found] == [f"harbour quay number {n}" for n in range(5)]
    monkeypatch.setattr(vectors, "MOST_COMPARED", VERSIONS - 1)
    assert not (await services.search.search(keeper.id, query)).metadata.exact
