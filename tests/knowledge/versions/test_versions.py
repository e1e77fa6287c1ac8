"""Former versions, their quarantine and replays."""

from datetime import timedelta
from typing import Any, get_args
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.erasures import Release
from app.contract.receipts import Replay
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.contract.vocabulary import Fusion, Mode
from app.db.queries import versions as db
from app.db.queries.receipts import ranks_of
from app.errors import EntryNotFound, InvalidInput, SearchNotFound
from app.knowledge.upkeep import Sweep
from app.knowledge.versions import VersionService
from tests.fixtures.database.cluster import connected, fetchval
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs
from tests.knowledge.quarantine.suspicious import CLEAN, ORDER, choose
from tests.knowledge.versions.keeping import found, keep, now, texts
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants


async def age(services: Services, superuser_dsn: str, tenant: Tenant, days: float) -> None:
    """Move everything that is kept into the past."""
    async with connected(superuser_dsn) as superuser:
        for table, columns in (
            ("former_entries", ("valid_from", "valid_until", "updated_at")),
            ("kept_versions", ("since",)),
        ):
            # Immutable functions: a cluster of Citus accepts no others here.
            moved = ", ".join(
                f"{c} = ({c} at time zone 'UTC' - interval '{days} days') at time zone 'UTC'" for c in columns
            )
            await superuser.execute(f"update {table} set {moved} where tenant_id = $1", tenant.id)


async def test_a_tenant_without_the_setting_keeps_nothing(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    (entry_id,) = await write(services, tenant, "the old harbour")
    await services.entries.change(tenant.id, entry_id, EntryDraft(content="the new harbour"))
    assert await texts(services, tenant, entry_id) == []
    await services.entries.delete(tenant.id, entry_id)
    with pytest.raises(EntryNotFound):
        await services.versions.list_versions(tenant.id, entry_id)
    async with connected(superuser_dsn) as superuser:
        assert await superuser.fetchval("select count(*) from former_entries") == 0
        assert await superuser.fetchval("select count(*) from former_embeddings") == 0
    with pytest.raises(InvalidInput, match="keep_versions_days"):
        await found(services, tenant, now())


async def test_versions_of_an_entry_follow_each_other(services: Services, keeper: Tenant) -> None:
    (entry_id,) = await write(services, keeper, "first harbour")
    for text in ("second harbour", "third harbour"):
        await services.entries.change(keeper.id, entry_id, EntryDraft(content=text))
    entry = await services.entries.get(keeper.id, entry_id)
    page = await services.versions.list_versions(keeper.id, entry_id)
    assert [(v.content, v.version) for v in page.items] == [("second harbour", 2), ("first harbour", 1)]
    latest, first = page.items
    assert latest.valid_until == entry.updated_at
    assert first.valid_until == latest.valid_from
    assert first.valid_from == entry.created_at
    await services.entries.delete(keeper.id, entry_id)
    assert await texts(services, keeper, entry_id) == ["third harbour", "second harbour", "first harbour"]

    one = await services.versions.list_versions(keeper.id, entry_id, limit=1)
    two = await services.versions.list_versions(keeper.id, entry_id, limit=2, cursor=one.next_cursor)
    assert [v.content for v in (*one.items, *two.items)] == await texts(services, keeper, entry_id)
    assert one.next_cursor is not None
    assert two.next_cursor is None


async def test_another_tenants_versions_are_unknown(services: Services, keeper: Tenant, other_tenant: Tenant) -> None:
    (entry_id,) = await write(services, keeper, "the old harbour")
    before = now()
    await services.entries.change(keeper.id, entry_id, EntryDraft(content="the new harbour"))
    await keep(services, other_tenant, 30)
    with pytest.raises(EntryNotFound):
        await services.versions.list_versions(other_tenant.id, entry_id)
    with pytest.raises(InvalidInput, match="must not be before"):
        await found(services, other_tenant, before)
    assert await found(services, other_tenant, now()) == []


@pytest.mark.parametrize("days", [None, 0])
async def test_versions_are_removed_when_the_period_ends(
    services: Services, keeper: Tenant, superuser_dsn: str, days: int | None
) -> None:
    sweep: Sweep = services.worker.sweep
    kept, old = await write(services, keeper, "kept harbour", "old harbour")
    await services.entries.change(keeper.id, old, EntryDraft(content="new harbour"))
    await age(services, superuser_dsn, keeper, 20)
    before = now()
    await services.entries.change(keeper.id, kept, EntryDraft(tags=["x"]))
    await sweep.run()
    assert await texts(services, keeper, old) == ["old harbour"]
    await keep(services, keeper, 10)
    with pytest.raises(InvalidInput, match="must not be before"):
        await found(services, keeper, now() - timedelta(days=11))
    await sweep.run()
    assert await texts(services, keeper, old) == []
    assert await texts(services, keeper, kept) == ["kept harbour"]
    assert await fetchval(superuser_dsn, "select array_agg(entry_id) from former_embeddings") == [kept]
    assert "kept harbour" in await found(services, keeper, before)

    await keep(services, keeper, days)
    await sweep.run()
    async with connected(superuser_dsn) as superuser:
        assert await superuser.fetchval("select count(*) from former_entries") == 0
        assert await superuser.fetchval("select count(*) from former_embeddings") == 0
    await keep(services, keeper, 10)
    with pytest.raises(InvalidInput, match="must not be before"):
        await found(services, keeper, before)


async def test_a_longer_period_does_not_bring_back_what_was_removed(
    services: Services, keeper: Tenant, superuser_dsn: str
) -> None:
    await age(services, superuser_dsn, keeper, 25)
    await found(services, keeper, now() - timedelta(days=20))
    await keep(services, keeper, 10)
    await keep(services, keeper, 3_650)
    with pytest.raises(InvalidInput, match="must not be before"):
        await found(services, keeper, now() - timedelta(days=20))
    await found(services, keeper, now() - timedelta(days=9))


async def test_the_oldest_versions_over_the_bound_are_removed(services: Services, keeper: Tenant) -> None:
    entries = await write(services, keeper, *(f"harbour {n}" for n in range(5)))
    before = now()
    for entry_id in entries:
        await services.entries.change(keeper.id, entry_id, EntryDraft(content=f"new {entry_id}"))
    middle = now()
    assert await VersionService(services.database, most=2).prune(keeper.id) == 3
    assert [await texts(services, keeper, i) for i in entries] == [[], [], [], ["harbour 3"], ["harbour 4"]]
    with pytest.raises(InvalidInput, match="must not be before"):
        await found(services, keeper, before)
    assert await found(services, keeper, middle) == []
    records = (await services.administration.stats(keeper.id)).records["former_versions"]
    assert (records.rows, records.limit) == (2, services.versions.most)
    assert records.bytes > 0


async def test_erased_versions_are_found_nowhere(services: Services, keeper: Tenant, superuser_dsn: str) -> None:
    kept, erased = await write(services, keeper, "kept harbour", "secret harbour")
    before = now()
    await services.entries.change(keeper.id, erased, EntryDraft(content="another harbour"))
    await services.entries.delete(keeper.id, kept)
    await services.entries.delete(keeper.id, erased)
    async with services.database.tenant_session(keeper.id) as session:
        assert await db.erase_versions(session, [erased]) == {erased: 2}
    assert await found(services, keeper, before) == ["kept harbour"]
    assert await fetchval(superuser_dsn, "select array_agg(distinct entry_id) from former_embeddings") == [kept]


async def quarantine(services: Services, tenant: Tenant, entry_id: UUID) -> None:
    await choose(services, tenant, "quarantine")
    await services.entries.change(tenant.id, entry_id, EntryDraft(content=ORDER))
    assert (await services.entries.get(tenant.id, entry_id)).quarantined


@pytest.mark.parametrize("deleted", [False, True], ids=["quarantined", "deleted in quarantine"])
async def test_no_version_of_a_quarantined_entry_is_found(
    services: Services, keeper: Tenant, failing_provider: FailingProvider, deleted: bool
) -> None:
    failing_provider.default = failing_provider.direction(1)
    held, other = await write(services, keeper, "the harbour at noon", "another harbour")
    before = now()
    assert len(await found(services, keeper, before)) == 2
    await quarantine(services, keeper, held)
    quarantined = now()
    if deleted:
        await services.entries.delete(keeper.id, held)
    await services.entries.change(keeper.id, other, EntryDraft(content="another harbour again"))
    for moment in (before, quarantined):
        assert await found(services, keeper, moment) == ["another harbour"]
    for mode in ("semantic", "hybrid"):
        query = SearchQuery(query="harbour", mode=mode, as_of=before, similarity_threshold=0)
        assert {hit.id for hit in await services.search.search(keeper.id, query)} == {other}
    assert await texts(services, keeper, held) == []
    page = await services.versions.list_versions(keeper.id, held, include_quarantined=True)
    assert [v.content for v in page.items] == [*([ORDER] if deleted else []), "the harbour at noon"]


async def test_a_release_shows_the_versions_from_before_the_quarantine(services: Services, keeper: Tenant) -> None:
    (held,) = await write(services, keeper, "the harbour at noon")
    before = now()
    await quarantine(services, keeper, held)
    quarantined = now()
    await services.quarantine.release(keeper.id, Release(entry_ids=[held]))
    assert await found(services, keeper, before) == ["the harbour at noon"]
    assert await found(services, keeper, quarantined) == []
    assert await found(services, keeper, now()) == [ORDER]
    assert await texts(services, keeper, held) == ["the harbour at noon"]


async def test_a_text_that_was_replaced_in_quarantine_stays_hidden(services: Services, keeper: Tenant) -> None:
    """Also after the quarantine; the text from before it is found again."""
    (held,) = await write(services, keeper, "the harbour at noon")
    before = now()
    await quarantine(services, keeper, held)
    quarantined = now()
    assert await found(services, keeper, before) == []
    await services.entries.change(keeper.id, held, EntryDraft(content=CLEAN))
    assert await found(services, keeper, quarantined) == []
    assert await found(services, keeper, before) == ["the harbour at noon"]
    assert await found(services, keeper, now()) == [CLEAN]


SECRET = "ghp_a8Kd93jfLq0PzXc72mNbVt5RwYh1Gu4Es6Qo"


@pytest.mark.parametrize(
    ("flagged", "clean"),
    [
        (EntryDraft(content="quiet pond", metadata={"token": SECRET}), EntryDraft(metadata={})),
        (EntryDraft(content="quiet pond", tags=[SECRET]), EntryDraft(tags=["pond"])),
    ],
    ids=["metadata", "tag"],
)
async def test_versions_with_a_flagged_field_stay_hidden_after_a_change_ends_the_quarantine(
    services: Services, keeper: Tenant, flagged: EntryDraft, clean: EntryDraft
) -> None:
    await choose(services, keeper, "flag")
    held = (await services.entries.create(keeper.id, flagged))[0].id
    before = now()
    await choose(services, keeper, "quarantine")
    await services.entries.change(keeper.id, held, EntryDraft(confidence=0.5, title="Pond"))
    assert (await services.entries.get(keeper.id, held)).quarantined
    assert await found(services, keeper, before) == []
    await services.entries.change(keeper.id, held, clean)
    assert not (await services.entries.get(keeper.id, held)).quarantined
    assert await found(services, keeper, before) == []
    assert await texts(services, keeper, held) == []


async def test_a_release_shows_no_version_with_another_flagged_field(services: Services, keeper: Tenant) -> None:
    await choose(services, keeper, "flag")
    draft = EntryDraft(content="quiet pond", tags=[SECRET])
    held = (await services.entries.create(keeper.id, draft))[0].id
    before = now()
    await choose(services, keeper, "quarantine")
    await services.entries.change(keeper.id, held, EntryDraft(content=ORDER, tags=["pond"]))
    await services.quarantine.release(keeper.id, Release(entry_ids=[held]))
    assert await found(services, keeper, before) == []
    assert await texts(services, keeper, held) == []


async def test_a_chunk_that_is_quarantined_when_its_file_is_ingested_again_is_hidden_before_too(
    services: Services, keeper: Tenant, run_jobs: RunJobs
) -> None:
    await choose(services, keeper, "flag")
    asset, _ = await services.assets.upload(keeper.id, Upload("a.md", ORDER.encode(), external_id="a"))
    await run_jobs()
    flagged = now()
    assert await found(services, keeper, flagged) == [ORDER]
    await choose(services, keeper, "quarantine")
    again = ORDER.encode() + b"\n"
    await services.assets.upload(keeper.id, Upload("a.md", again, external_id="a"))
    await run_jobs()
    assert await found(services, keeper, now()) == []
    assert await found(services, keeper, flagged) == []
    await services.quarantine.release(keeper.id, Release(asset_ids=[asset.id]))
    assert await found(services, keeper, flagged) == [ORDER]


QUERY = "harbour at night"


@pytest.fixture
async def kept(services: Services, tenant: Tenant, run_jobs: RunJobs) -> Tenant:
    """A tenant that keeps versions and query texts, with entries and an asset, some of which were changed already."""
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_versions_days=30, keep_query_text=True))
    entries = await write(
        services, tenant, *(f"the harbour {n} at {'night' if n % 2 else 'noon'}" for n in range(12)), tags=["sea"]
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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("changed", [False, True], ids=["unchanged", "changed since"])
@pytest.mark.parametrize("fusion", get_args(Fusion))
@pytest.mark.parametrize(
    "mode", ["hybrid", *(pytest.param(mode, marks=pytest.mark.slow) for mode in get_args(Mode) if mode != "hybrid")]
)
async def test_a_replay_has_the_same_ranking_and_scores(
    services: Services, kept: Tenant, mode: Mode, fusion: Fusion, changed: bool
) -> None:
    options: list[dict[str, Any]] = [
        {},
        {"tags": ["sea"], "limit": 3},
        {"boost": ["type", "verified"], "diversity": 0.4},
        {"group_by": "asset", "facets": ["tags"], "explain": True},
    ]
    results = [await run(services, kept, mode=mode, fusion=fusion, **each) for each in options]
    if changed:
        (only,) = [result for result, each in zip(results, options, strict=True) if "tags" in each]
        await disturb(services, kept, only)
    for result, each in zip(results, options, strict=True):
        found = await replay(services, kept, result)
        assert found.as_of is not None
        assert found.causes == []
        assert [entry.id for entry in found.now] == [entry.id for entry in found.then], each
        if not changed:  # frequencies of words are today's
            assert (found.same, found.differences) == (True, [])
            assert list(map(ranks_of, found.now)) == list(map(ranks_of, found.then))
        shown = [hit.id for hit in result]
        assert [entry.id for entry in found.then if entry.passages != 0][: len(shown)] == shown


async def test_without_versions_a_replay_tells_what_changed(services: Services, kept: Tenant) -> None:
    await services.tenants.change_settings(kept.id, SettingsPatch(keep_versions_days=0))
    result = await run(services, kept, mode="keyword", tags=["sea"])
    assert (await replay(services, kept, result)).same, "nothing has changed"
    first, second = ids(result)[:2]
    await disturb(services, kept, result)
    found = await replay(services, kept, result)
    assert (found.as_of, found.causes) == (None, ["versions_not_kept"])
    reasons = {difference.id: difference.reason for difference in found.differences}
    assert (reasons[first], reasons[second]) == ("changed", "deleted")
    assert "not_ranked_then" in reasons.values()


async def test_a_replay_tells_what_else_differs(
    services: Services, kept: Tenant, failing_provider: FailingProvider
) -> None:
    result = await run(services, kept, boost=["type"])
    await services.tenants.change_settings(kept.id, SettingsPatch(type_weights={"fact": 3.0}))
    failing_provider.down = True
    found = await replay(services, kept, result, query=f" {QUERY} ")
    assert set(found.causes) == {"settings_changed", "degraded_now"}
    assert found.settings == ["type_weights"]
    assert not found.same


async def test_a_search_of_the_past_is_replayed_as_of_its_own_time(services: Services, kept: Tenant) -> None:
    before = await run(services, kept)
    as_of = (await replay(services, kept, before)).as_of
    await disturb(services, kept, before)
    result = await run(services, kept, as_of=as_of)
    found = await replay(services, kept, result)
    assert (found.as_of, found.same) == (as_of, True)
    assert ids(result) == ids(before)


async def test_the_query_must_be_that_of_the_search(services: Services, kept: Tenant, other_tenant: Tenant) -> None:
    await services.tenants.change_settings(kept.id, SettingsPatch(keep_query_text=False))
    result = await run(services, kept)
    with pytest.raises(InvalidInput, match="is not kept"):
        await replay(services, kept, result)
    with pytest.raises(InvalidInput, match="is not the query"):
        await replay(services, kept, result, query="another")
    assert (await replay(services, kept, result, query=QUERY)).same
    with pytest.raises(SearchNotFound):
        await replay(services, other_tenant, result, query=QUERY)


async def test_a_search_with_a_vector_is_replayed_with_one(services: Services, kept: Tenant) -> None:
    vector = [1.0] + [0.0] * 15
    own, other = await run(services, kept, query_embedding=vector), await run(services, kept)
    assert (await replay(services, kept, own, query_embedding=vector)).same
    for result, given in ((own, {}), (other, {"query_embedding": vector})):
        with pytest.raises(InvalidInput, match="query_embedding: must be given if the search had one"):
            await replay(services, kept, result, **given)
