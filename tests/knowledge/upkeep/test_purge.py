"""Only expired entries are removed, after the time that their tenant has set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.settings import SettingsPatch
from app.db.queries import entries as db
from app.errors import EntryNotFound
from app.knowledge.feedback import WeightTuner
from app.knowledge.upkeep import ACTOR, PURGE_BATCH, RecordTrimmer, Sweep
from tests.knowledge.writing import write


@pytest.fixture
def sweep(services: Services) -> Sweep:
    return services.worker.sweep


def days_ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


async def keep_for(services: Services, tenant: Tenant, days: int | None) -> None:
    await services.tenants.change_settings(tenant.id, SettingsPatch(purge_expired_after_days=days), actor="anna")


async def present(services: Services, tenant: Tenant) -> set[UUID]:
    page = await services.entries.list_entries(tenant.id, include_expired=True)
    return {entry.id for entry in page.items}


async def test_expired_entries_are_purged_after_the_time_set_by_the_tenant(
    services: Services, tenant: Tenant, other_tenant: Tenant, sweep: Sweep
) -> None:
    (long_ago,) = await write(services, tenant, "long ago", expires_at=days_ago(3))
    kept = await write(services, tenant, "lately", expires_at=days_ago(1))
    kept += await write(services, tenant, "to come", expires_at=days_ago(-1))
    kept += await write(services, tenant, "without an end")
    foreign = await write(services, other_tenant, "long ago", expires_at=days_ago(3))
    await sweep.run()
    assert await present(services, tenant) == {long_ago, *kept}, "without a setting nothing is removed"

    await keep_for(services, tenant, 2)
    await sweep.run()
    assert await present(services, tenant) == set(kept)
    assert await present(services, other_tenant) == set(foreign)
    with pytest.raises(EntryNotFound):
        await services.entries.get(tenant.id, long_ago)
    (record,) = [r for r in (await services.administration.audit(tenant.id)).items if r.actor == ACTOR]
    assert (record.action, record.subject_ids, record.detail) == ("entry.purge", [long_ago], {"entries": 1})
    foreign_trail = (await services.administration.audit(other_tenant.id)).items
    assert ACTOR not in {r.actor for r in foreign_trail}

    await keep_for(services, tenant, None)
    (again,) = await write(services, tenant, "long ago", expires_at=days_ago(1_000))
    await sweep.run()
    assert again in await present(services, tenant)


async def test_purge_keeps_an_entry_that_supersedes_another(services: Services, tenant: Tenant, sweep: Sweep) -> None:
    await keep_for(services, tenant, 0)
    (newer,) = await write(services, tenant, "newer", expires_at=days_ago(2))
    (older,) = await write(services, tenant, "older", superseded_by_id=newer)
    await sweep.purge_expired(tenant.id)
    assert await present(services, tenant) == {newer, older}
    assert (await services.entries.get(tenant.id, older)).superseded_by_id == newer
    await services.entries.change(tenant.id, older, EntryDraft(expires_at=days_ago(1)))
    assert await sweep.purge_expired(tenant.id) == 1
    assert await sweep.purge_expired(tenant.id) == 1
    assert await present(services, tenant) == set()


async def test_purge_removes_all_entries_in_batches(services: Services, tenant: Tenant, sweep: Sweep) -> None:
    number = PURGE_BATCH + 3
    await services.entries.create_many(
        tenant.id, [EntryDraft(content=f"entry {n}", expires_at=days_ago(n + 1)) for n in range(number)]
    )
    await keep_for(services, tenant, 0)
    async with services.database.tenant_session(tenant.id) as session:
        oldest = await db.purge_expired(session, 2)
    assert len(oldest) == 2
    assert await sweep.purge_expired(tenant.id) == number - 2
    assert await present(services, tenant) == set()
    trail = (await services.administration.audit(tenant.id)).items
    assert [r.detail["entries"] for r in trail if r.actor == ACTOR] == [1, PURGE_BATCH]
    assert (await services.administration.stats(tenant.id)).pending_embeddings == 0


async def test_a_failing_sweep_of_one_tenant_does_not_affect_others(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    class Failing(Sweep):
        async def purge_expired(self, tenant_id: UUID) -> int:
            if tenant_id == tenant.id:
                raise RuntimeError("told to")
            return await super().purge_expired(tenant_id)

    for each in (tenant, other_tenant):
        await keep_for(services, each, 2)
        await write(services, each, "long ago", expires_at=days_ago(3))
    runner = services.worker.runner
    trimmer = RecordTrimmer(services.database, services.tenants, services.versions)
    tuner = WeightTuner(services.database, services.tenants, services.ranker, services.search.defaults)
    await Failing(services.database, services.tenants, runner.upkeep, runner.deliveries, trimmer, tuner).run()
    assert len(await present(services, tenant)) == 1
    assert not await present(services, other_tenant)
