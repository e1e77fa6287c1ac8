"""The lease of a job: renewed during the work, shown as progress, and lost to other workers or a deletion."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.documents.parsed import ParseLimits
from app.knowledge.ingestion.pipeline import Ingestion
from app.knowledge.queue import ClaimLost, Lease
from tests.fixtures.database.cluster import connected
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.workers import (
    MINUTE,
    PATIENCE,
    Bench,
    change_runner,
    claim,
    expire_leases,
    find_parser,
)
from tests.knowledge.conftest import RunJobs

LONG_FILE = Upload("long.txt", "\n\n".join(f"Paragraph {n} of the log. " * 60 for n in range(200)).encode())


async def test_asset_of_a_dead_worker_is_indexed_by_another_and_not_twice(
    services: Services,
    tenant: Tenant,
    failing_provider: FailingProvider,
    superuser_dsn: str,
    run_jobs: RunJobs,
) -> None:
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", b"# Harbour\n\nBoats lie here."))
    slow = Ingestion(services.database, {1: failing_provider}, services.tenants)
    job = await claim(services)
    assert job is not None
    go_on = failing_provider.hold_next_call()
    # Without its heartbeat, as in a suspended process: only the fence prevents its writes.
    dying = asyncio.create_task(slow.ingest(job, Lease(services.database, job, MINUTE)))
    await failing_provider.entered.wait()
    await expire_leases(superuser_dsn)
    assert await run_jobs() == 1
    before = await services.entries.list_entries(tenant.id)
    assert (await services.assets.get(tenant.id, asset.id)).status == "indexed"
    go_on.set()
    with pytest.raises(ClaimLost):
        await dying
    await slow.fail(job, "late failure", 1)
    assert (await services.entries.list_entries(tenant.id)).items == before.items
    assert (await services.assets.get(tenant.id, asset.id)).status == "indexed"


async def test_work_of_a_deleted_tenant_is_dropped(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    await services.assets.upload(tenant.id, Upload("a.md", b"# Harbour\n\nBoats lie here."))
    go_on = failing_provider.hold_next_call()
    working = asyncio.create_task(services.worker.run_once())
    await failing_provider.entered.wait()
    await services.tenants.delete(tenant.id, actor="test")
    go_on.set()
    assert await working
    assert await claim(services) is None


async def test_cancelled_worker_releases_its_job_at_once(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    await services.assets.upload(tenant.id, Upload("a.md", b"# Harbour\n\nBoats lie here."))
    failing_provider.hold_next_call()
    working = asyncio.create_task(services.worker.run_once())
    await failing_provider.entered.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    job = await claim(services)
    assert job is not None
    assert job.attempts == 1, "a shutdown does not use up an attempt"


async def test_lease_is_renewed_during_the_work(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, superuser_dsn: str
) -> None:
    await services.assets.upload(tenant.id, Upload("a.md", b"# Harbour\n\nBoats lie here."))
    worker = change_runner(services.worker, lease=timedelta(seconds=2.4))
    go_on = failing_provider.hold_next_call()
    working = asyncio.create_task(worker.run_once())
    await failing_provider.entered.wait()
    async with connected(superuser_dsn) as superuser, asyncio.timeout(PATIENCE):
        first = await superuser.fetchval("select lease_until from jobs")
        while not await superuser.fetchval("select clock_timestamp() > $1", first):
            assert await claim(services) is None
            await asyncio.sleep(0.1)
        assert await superuser.fetchval("select lease_until > clock_timestamp() from jobs")
    assert await claim(services) is None
    go_on.set()
    assert await working
    assert (await services.administration.stats(tenant.id)).assets_by_status == {"indexed": 1}


@pytest.mark.slow
async def test_progress_increases_during_the_work(bench: Bench) -> None:
    asset_id = await bench.upload(LONG_FILE)
    go_on = bench.provider.hold_next_call()
    working = asyncio.create_task(bench.make_worker(lease=0.3).run_once())
    seen = [0.09]  # what was stored before the first call is less
    for _ in range(3):
        await bench.provider.entered.wait()
        seen.append((await bench.wait_until(asset_id, lambda a: a.progress > seen[-1])).progress)
        held, go_on = go_on, bench.provider.hold_next_call()
        held.set()
    go_on.set()
    assert await working
    assert (await bench.get(asset_id)).progress == 1
    assert 0.1 <= seen[1] < seen[2] < seen[3] < 1


async def test_progress_increases_while_a_file_is_parsed(bench: Bench) -> None:
    """The parser does not report progress, so it is estimated from the elapsed time."""
    bench.limits = ParseLimits(seconds=10.0)
    asset_id = await bench.upload()
    working = asyncio.create_task(bench.make_worker(lease=0.3).run_once())
    parser = await find_parser()
    parser.suspend()
    seen = [0.02]
    for _ in range(3):
        seen.append((await bench.wait_until(asset_id, lambda a: a.progress > seen[-1] + 1e-6)).progress)
    parser.resume()
    assert await working
    assert seen[-1] < 0.1
    assert (await bench.get(asset_id)).status == "indexed"


@pytest.mark.slow
async def test_deleting_an_asset_stops_its_parser(bench: Bench) -> None:
    asset_id = await bench.upload()
    working = asyncio.create_task(bench.make_worker().run_once())
    parser = await find_parser()
    parser.suspend()
    await bench.services.assets.delete(bench.tenant.id, asset_id)
    async with asyncio.timeout(PATIENCE):
        assert await working
    assert not parser.is_running()


async def test_deleting_an_asset_stops_the_work_on_it(bench: Bench) -> None:
    asset_id = await bench.upload()
    bench.provider.hold_next_call()
    working = asyncio.create_task(bench.make_worker().run_once())
    await bench.provider.entered.wait()
    await bench.services.assets.delete(bench.tenant.id, asset_id)
    async with asyncio.timeout(PATIENCE):
        assert await working, "although the provider has not answered"
    stats = await bench.services.administration.stats(bench.tenant.id)
    assert (stats.entries, stats.jobs, stats.assets_by_status) == (0, 0, {})


async def test_new_version_stops_the_work_on_the_old(bench: Bench, run_jobs: RunJobs) -> None:
    asset_id = await bench.upload(Upload("a.md", b"Old.", external_id="a"))
    bench.provider.hold_next_call()
    working = asyncio.create_task(bench.make_worker().run_once())
    await bench.provider.entered.wait()
    await bench.upload(Upload("a.md", b"New.", external_id="a"))
    async with asyncio.timeout(PATIENCE):
        assert await working, "although the provider has not answered"
    assert await run_jobs() == 1
    asset = await bench.get(asset_id)
    assert (asset.status, asset.generation) == ("indexed", 2)
