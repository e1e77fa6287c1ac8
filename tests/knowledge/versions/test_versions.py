"""Which versions are kept, for how long, and how they are listed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.db.queries import versions as db
from app.errors import EntryNotFound, InvalidInput
from app.knowledge.upkeep import Sweep
from app.knowledge.versions import VersionService
from tests.fixtures.database.cluster import connected
from tests.knowledge.versions.keeping import found, keep, now, texts
from tests.knowledge.writing import write

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
    async with connected(superuser_dsn) as superuser:
        assert await superuser.fetchval("select array_agg(entry_id) from former_embeddings") == [kept]
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
    async with connected(superuser_dsn) as superuser:
        assert await superuser.fetchval("select array_agg(distinct entry_id) from former_embeddings") == [kept]
