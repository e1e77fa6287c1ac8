"""An erasure removes the release of the text, which is then quarantined again."""

from __future__ import annotations

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.erasures import NewErasure, Release
from app.contract.settings import SettingsPatch
from tests.fixtures.database.cluster import connected
from tests.knowledge.conftest import RunJobs
from tests.knowledge.quarantine.suspicious import CLEAN, ORDER, TOKEN, choose


async def test_an_erased_entry_leaves_no_release(
    services: Services, tenant: Tenant, superuser_dsn: str, run_jobs: RunJobs
) -> None:
    await choose(services, tenant, "quarantine")
    held, _ = await services.entries.create(tenant.id, EntryDraft(content=ORDER))
    await services.quarantine.release(tenant.id, Release(entry_ids=[held.id]))
    erasure = await services.erasures.erase(tenant.id, NewErasure(entry_id=held.id), actor="ada")
    await run_jobs()
    receipt = await services.erasures.get(tenant.id, erasure.id)
    assert {place.place: place.removed for place in receipt.places}["released_texts"] == 1
    async with connected(superuser_dsn) as superuser:
        assert not await superuser.fetchval("select count(*) from released_texts")
    again, _ = await services.entries.create(tenant.id, EntryDraft(content=ORDER))
    assert again.quarantined


async def test_an_erasure_removes_the_releases_of_all_fields_and_former_versions(
    services: Services, tenant: Tenant, superuser_dsn: str, run_jobs: RunJobs
) -> None:
    await choose(services, tenant, "quarantine")
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_versions_days=10), actor="admin")
    held, _ = await services.entries.create(
        tenant.id, EntryDraft(content=CLEAN, title=ORDER, tags=[TOKEN[13:]], metadata={"k": ORDER})
    )
    await services.quarantine.release(tenant.id, Release(entry_ids=[held.id]))
    await services.entries.change(tenant.id, held.id, EntryDraft(title=None, tags=[], metadata={}))
    erasure = await services.erasures.erase(tenant.id, NewErasure(entry_id=held.id), actor="ada")
    await run_jobs()
    receipt = await services.erasures.get(tenant.id, erasure.id)
    assert {place.place: place.removed for place in receipt.places}["released_texts"] == 3
    async with connected(superuser_dsn) as superuser:
        assert not await superuser.fetchval("select count(*) from released_texts")
