"""A deletion of an asset and an upload to it at the same time: one waits for the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.erasures import NewErasure
from app.db.queries import jobs
from app.errors import AssetNotFound
from tests.fixtures.database.cluster import connected

WAITING = """
select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
"""

Removal = Callable[[Services, UUID, UUID], Awaitable[Any]]


async def _erase(services: Services, tenant_id: UUID, asset_id: UUID) -> None:
    await services.erasures.erase(tenant_id, NewErasure(asset_id=asset_id), actor="ada")


async def _delete(services: Services, tenant_id: UUID, asset_id: UUID) -> None:
    await services.assets.delete(tenant_id, asset_id)


@pytest.mark.parametrize("remove", [_erase, _delete])
@pytest.mark.parametrize("data", [b"The harbour closes.", b"The harbour opens."], ids=["other", "same"])
async def test_an_upload_to_an_asset_that_is_removed_waits_and_stores_it_again(
    services: Services,
    tenant: Tenant,
    superuser_dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    remove: Removal,
    data: bytes,
) -> None:
    old, _ = await services.assets.upload(tenant.id, Upload("a.txt", b"The harbour opens.", external_id="a"))
    cancel = jobs.cancel_jobs
    uploads: list[asyncio.Task[Any]] = []

    async def cancel_and_meet(*given: Any) -> None:
        """Remove the job, and go on once an upload waits for what the removal holds."""
        await cancel(*given)
        if not uploads:
            upload = Upload("a.txt", data, external_id="a")
            uploads.append(asyncio.create_task(services.assets.upload(tenant.id, upload)))
            async with connected(superuser_dsn) as superuser:
                while not await superuser.fetchval(WAITING):
                    assert not uploads[0].done()
                    await asyncio.sleep(0.01)

    monkeypatch.setattr(jobs, "cancel_jobs", cancel_and_meet)
    async with asyncio.timeout(60):
        await remove(services, tenant.id, old.id)
        stored, work = await uploads[0]
    assert work
    assert stored.id != old.id
    with pytest.raises(AssetNotFound):
        await services.assets.get(tenant.id, old.id)


async def test_an_upload_is_answered_although_its_asset_is_deleted_at_once(
    services: Services, tenant: Tenant, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = services.database.tenant_session
    deleted: list[UUID] = []

    @asynccontextmanager
    async def open_and_delete(*given: Any, **options: Any) -> AsyncIterator[Any]:
        """A transaction; as soon as it has stored an asset, another caller deletes it."""
        async with opened(*given, **options) as session:
            yield session
        async with connected(superuser_dsn) as superuser:
            found = await superuser.fetch("delete from assets where tenant_id = $1 returning id", tenant.id)
        deleted.extend(row["id"] for row in found)

    monkeypatch.setattr(services.database, "tenant_session", open_and_delete)
    stored, work = await services.assets.upload(tenant.id, Upload("a.txt", b"The harbour opens."))
    assert ([stored.id], stored.status, work) == (deleted, "pending", True)
