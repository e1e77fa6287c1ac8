"""Boosts: by type, verification and access."""

from __future__ import annotations

import math

import pytest

from app.composition.services import Services
from app.knowledge.search.query import SearchQuery
from app.knowledge.tenants.directory import Tenant
from tests.fixtures.searching import explanation_of
from tests.knowledge.writing import ids, write


async def test_boosts_raise_hits_by_type_verification_and_access(services: Services, tenant: Tenant) -> None:
    (fact,) = await write(services, tenant, "harbour harbour")
    (lesson,) = await write(services, tenant, "harbour rule", entry_type="lesson", is_verified=True)
    plain = await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword"))
    assert ids(plain) == [fact, lesson]
    score = {hit.id: hit.score for hit in plain}
    await services.journal.flush()
    lifted = await services.search.search(
        tenant.id, SearchQuery(query="harbour", mode="keyword", boost=["type", "verified"])
    )
    assert ids(lifted) == [lesson, fact]
    assert lifted[0].score == pytest.approx(score[lesson] * 2.0 * 1.5)
    assert lifted[1].score == pytest.approx(score[fact])
    await services.journal.flush()
    seen = await services.search.search(
        tenant.id, SearchQuery(query="harbour", mode="keyword", boost=["access"])
    )
    assert seen[0].score > score[seen[0].id]
    await services.tenants.change_settings(
        tenant.id, {"type_weights": {"lesson": 0.1}, "verified_boost": 1.0}
    )
    lowered = await services.search.search(
        tenant.id, SearchQuery(query="harbour", mode="keyword", boost=["type", "verified"])
    )
    assert ids(lowered) == [fact, lesson]


async def test_access_boost_counts_shown_hits_without_changing_entries(
    services: Services, tenant: Tenant
) -> None:
    shown, hidden = await write(services, tenant, "harbour harbour", "harbour and more words")
    before = [await services.entries.get(tenant.id, i) for i in (shown, hidden)]
    for _ in range(3):
        assert ids(
            await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword", limit=1))
        ) == [shown]
    await services.journal.flush()
    query = SearchQuery(query="harbour", mode="keyword", boost=["access"], explain=True)
    result = await services.search.search(tenant.id, query)
    factors = {hit.id: hit.boosts for hit in explanation_of(result).hits}
    assert factors == {shown: {"access": pytest.approx(1 + math.log(4))}, hidden: {"access": 1.0}}
    assert result[0].score == pytest.approx(0.3 / 61 * (1 + math.log(4)))
    await services.journal.flush()
    after = [await services.entries.get(tenant.id, i) for i in (shown, hidden)]
    assert after == before, "neither updated_at nor the version moved"


@pytest.mark.parametrize(
    ("entry_type", "factor"),
    [
        *(("decision", 2.0), ("lesson", 2.0), ("summary", 0.5), ("temp_note", 0.3)),
        *(("fact", 1.0), ("template", 1.0), ("insight", 1.0)),
    ],
)
async def test_type_boost_has_the_factor_of_the_type(
    services: Services, tenant: Tenant, entry_type: str, factor: float
) -> None:
    await write(services, tenant, "harbour", entry_type=entry_type)
    query = SearchQuery(query="harbour", mode="keyword", boost=["type"])
    (hit,) = await services.search.search(tenant.id, query)
    assert hit.score == pytest.approx(0.3 / 61 * factor)
