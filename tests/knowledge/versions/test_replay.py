"""A replay answers with the ranking of a search as of its time."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.receipts import Replay
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.contract.vocabulary import Fusion, Mode
from app.db.queries.receipts import ranks_of
from app.errors import InvalidInput, SearchNotFound
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants

QUERY = "harbour at night"


@pytest.fixture
async def keeper(services: Services, tenant: Tenant, run_jobs: RunJobs) -> Tenant:
    """A tenant that keeps versions and query texts, with entries and an asset, some of which were changed already."""
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_versions_days=30, keep_query_text=True))
    entries = await write(
        services,
        tenant,
        *(f"the harbour {n} at {'night' if n % 2 else 'noon'}" for n in range(12)),
        tags=["sea"],
    )
    await write(services, tenant, "mountains at night", is_verified=True)
    await services.assets.upload(tenant.id, Upload("a.md", b"# Harbour\n\nIt closes.\n\n# Night\n\nIt is dark."))
    await run_jobs()
    await services.entries.change(tenant.id, entries[0], EntryDraft(content="the harbour was changed"))
    await services.entries.delete(tenant.id, entries[1])
    return tenant


async def run(services: Services, tenant: Tenant, **values: Any) -> SearchResult:
    result = await services.search.search(tenant.id, SearchQuery(query=QUERY, **values))
    await services.journal.flush()
    assert result.results
    return result


async def replay(services: Services, tenant: Tenant, result: SearchResult, **given: Any) -> Replay:
    return await services.replays.replay(tenant.id, result.metadata.search_id, **given)


async def disturb(services: Services, tenant: Tenant, result: SearchResult) -> None:
    """Change the first hit, delete the second, and add a better one."""
    first, second = ids(result)[:2]
    await services.entries.change(tenant.id, first, EntryDraft(title="something else", tags=["land"]))
    await services.entries.delete(tenant.id, second)
    await services.entries.create(tenant.id, EntryDraft(content="harbour at night, harbour at night", tags=["sea"]))


@pytest.mark.parametrize("changed", [False, True], ids=["unchanged", "changed since"])
@pytest.mark.parametrize("fusion", get_args(Fusion))
@pytest.mark.parametrize(
    "mode",
    ["hybrid", *(pytest.param(mode, marks=pytest.mark.slow) for mode in get_args(Mode) if mode != "hybrid")],
)
async def test_a_replay_has_the_same_ranking_and_scores(
    services: Services, keeper: Tenant, mode: Mode, fusion: Fusion, changed: bool
) -> None:
    options: list[dict[str, Any]] = [
        {},
        {"tags": ["sea"], "limit": 3},
        {"boost": ["type", "verified"], "diversity": 0.4},
        {"group_by": "asset", "facets": ["tags"], "explain": True},
    ]
    results = [await run(services, keeper, mode=mode, fusion=fusion, **each) for each in options]
    if changed:
        (only,) = [result for result, each in zip(results, options, strict=True) if "tags" in each]
        await disturb(services, keeper, only)
    for result, each in zip(results, options, strict=True):
        found = await replay(services, keeper, result)
        assert found.as_of is not None
        assert found.causes == []
        assert [entry.id for entry in found.now] == [entry.id for entry in found.then], each
        if not changed:  # frequencies of words are today's
            assert (found.same, found.differences) == (True, [])
            assert list(map(ranks_of, found.now)) == list(map(ranks_of, found.then))
        shown = [hit.id for hit in result]
        assert [entry.id for entry in found.then if entry.passages != 0][: len(shown)] == shown


async def test_without_versions_a_replay_tells_what_changed(services: Services, keeper: Tenant) -> None:
    await services.tenants.change_settings(keeper.id, SettingsPatch(keep_versions_days=0))
    result = await run(services, keeper, mode="keyword", tags=["sea"])
    assert (await replay(services, keeper, result)).same, "nothing has changed"
    first, second = ids(result)[:2]
    await disturb(services, keeper, result)
    found = await replay(services, keeper, result)
    assert (found.as_of, found.causes) == (None, ["versions_not_kept"])
    reasons = {difference.id: difference.reason for difference in found.differences}
    assert (reasons[first], reasons[second]) == ("changed", "deleted")
    assert "not_ranked_then" in reasons.values()


async def test_a_replay_tells_what_else_differs(
    services: Services, keeper: Tenant, failing_provider: FailingProvider
) -> None:
    result = await run(services, keeper, boost=["type"])
    await services.tenants.change_settings(keeper.id, SettingsPatch(type_weights={"fact": 3.0}))
    failing_provider.down = True
    found = await replay(services, keeper, result, query=f" {QUERY} ")
    assert set(found.causes) == {"settings_changed", "degraded_now"}
    assert found.settings == ["type_weights"]
    assert not found.same


async def test_a_search_of_the_past_is_replayed_as_of_its_own_time(services: Services, keeper: Tenant) -> None:
    before = await run(services, keeper)
    as_of = (await replay(services, keeper, before)).as_of
    await disturb(services, keeper, before)
    result = await run(services, keeper, as_of=as_of)
    found = await replay(services, keeper, result)
    assert (found.as_of, found.same) == (as_of, True)
    assert ids(result) == ids(before)


async def test_the_query_must_be_that_of_the_search(services: Services, keeper: Tenant, other_tenant: Tenant) -> None:
    await services.tenants.change_settings(keeper.id, SettingsPatch(keep_query_text=False))
    result = await run(services, keeper)
    with pytest.raises(InvalidInput, match="does not keep"):
        await replay(services, keeper, result)
    with pytest.raises(InvalidInput, match="is not the query"):
        await replay(services, keeper, result, query="another")
    assert (await replay(services, keeper, result, query=QUERY)).same
    with pytest.raises(SearchNotFound):
        await replay(services, other_tenant, result, query=QUERY)
