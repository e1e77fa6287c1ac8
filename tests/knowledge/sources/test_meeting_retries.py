"""A run that removes assets, and requests for the same assets at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.sources import Manifest
from app.db.queries import assets, sources
from app.errors import AssetNotFound, InvalidInput
from app.knowledge.sources.run import RunOptions
from tests.fixtures.database.cluster import connected
from tests.knowledge.sources.origins import Shelf, assets_of, run_source

pytestmark = pytest.mark.own_tenants

WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


async def test_a_retry_during_the_removal_of_its_asset_leaves_no_job(
    services: Services, tenant: Tenant, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_source(services, tenant, Shelf({"amber.md": b"The amber is here.", "basalt.md": b"Basalt."}))
    asset_id = UUID((await assets_of(services, tenant, "shelf"))["amber.md"])
    cancel = sources.cancel_ingestions
    retried: list[UUID] = []

    async def cancel_and_retry(session: Any, ids: Sequence[UUID]) -> None:
        """Another caller retries the asset, once its jobs are removed and it is not."""
        await cancel(session, ids)
        if not retried:
            retried.append(asset_id)
            async with connected(superuser_dsn) as superuser:
                await superuser.execute("update assets set status = 'failed' where id = $1", asset_id)
            await services.assets.retry(tenant.id, asset_id)

    monkeypatch.setattr(sources, "cancel_ingestions", cancel_and_retry)
    shelf = Shelf({"basalt.md": b"Basalt."})
    await run_source(services, tenant, shelf, options=RunOptions(confirm_deletions=True))
    assert retried
    with pytest.raises(AssetNotFound):
        await services.assets.get(tenant.id, asset_id)
    async with connected(superuser_dsn) as superuser:
        assert await superuser.fetchval("select count(*) from jobs where kind = 'ingest_asset'") == 0


async def test_a_refused_and_an_accepted_upload_of_an_item_wait_for_each_other(
    services: Services, tenant: Tenant, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = Manifest(items=[{"external_id": "a", "name": "a.txt", "digest": "1"}])
    run = (await services.sources.accept(tenant.id, "shelf", manifest))[0].run
    upload = Upload("a.txt", b"The amber is here.", external_id="a")
    await services.source_uploads.upload(tenant.id, "shelf", run, upload)
    manifest = Manifest(items=[{"external_id": "a", "name": "a.txt", "digest": "2"}])
    run = (await services.sources.accept(tenant.id, "shelf", manifest))[0].run
    lock = assets.lock_asset
    refused: list[asyncio.Task[Any]] = []

    async def lock_and_meet(*given: Any) -> Any:
        """Lock the asset, and go on once an upload that is refused waits."""
        found = await lock(*given)
        if not refused:
            empty = Upload("a.txt", b"", external_id="a")
            refused.append(asyncio.create_task(services.source_uploads.upload(tenant.id, "shelf", run, empty)))
            async with connected(superuser_dsn) as superuser:
                while not await superuser.fetchval(WAITING):
                    assert not refused[0].done()
                    await asyncio.sleep(0.01)
        return found

    monkeypatch.setattr(assets, "lock_asset", lock_and_meet)
    changed = Upload("a.txt", b"The zircon is here.", external_id="a")
    async with asyncio.timeout(60):
        await services.source_uploads.upload(tenant.id, "shelf", run, changed)
        with pytest.raises(InvalidInput):
            await refused[0]
    assert await assets_of(services, tenant, "shelf") == {}
