"""Boosts: by type, verification and access."""

from __future__ import annotations

import math

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from tests.fixtures.searching import explanation_of
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants


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
    await services.entries.read(tenant.id, fact)
    await services.accesses.flush()
    seen = await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword", boost=["access"]))
    assert seen[0].score > score[seen[0].id]
    await services.tenants.change_settings(tenant.id, SettingsPatch(type_weights={"lesson": 0.1}, verified_boost=1.0))
    lowered = await services.search.search(
        tenant.id, SearchQuery(query="harbour", mode="keyword", boost=["type", "verified"])
    )
    assert ids(lowered) == [fact, lesson]


async def test_access_boost_counts_reads_and_relevant_feedback_but_not_hits(services: Services, tenant: Tenant) -> None:
    read, judged, listed = await write(
        services, tenant, "harbour harbour harbour", "harbour harbour and", "harbour and more words"
    )
    before = [await services.entries.get(tenant.id, i) for i in (read, judged, listed)]
    for _ in range(3):
        result = await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword"))
        await services.entries.read(tenant.id, read)
        await services.accesses.flush()
    search_id = result.metadata.search_id
    for entry_id, relevant in ((judged, True), (listed, False)):
        await services.feedback.give(tenant.id, "service", search_id, entry_id, relevant)
    await services.journal.flush()
    await services.accesses.flush()
    query = SearchQuery(query="harbour", mode="keyword", boost=["access"], explain=True)
    result = await services.search.search(tenant.id, query)
    factors = {hit.id: (hit.boosts or {})["access"] for hit in explanation_of(result).hits}
    assert factors == {
        read: pytest.approx(1 + math.log(4)),
        judged: pytest.approx(1 + math.log(2)),
        listed: 1.0,
    }
    after = [await services.entries.get(tenant.id, i) for i in (read, judged, listed)]
    assert after == before, "neither updated_at nor the version moved"


async def test_repeated_reads_within_a_moment_count_once(services: Services, tenant: Tenant) -> None:
    (entry_id,) = await write(services, tenant, "harbour")
    for _ in range(5):
        await services.entries.read(tenant.id, entry_id)
    await services.accesses.flush()
    assert (await services.inspection.entry(tenant.id, entry_id)).accesses == 1


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
    query = SearchQuery(query="harbour", mode="keyword", fusion="rrf", boost=["type"])
    (hit,) = await services.search.search(tenant.id, query)
    assert hit.score == pytest.approx(0.3 / 61 * factor)
