"""Leases and turns of jobs."""

import asyncio
from datetime import timedelta

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.db.queries import jobs as db
from app.documents.parsed import ParseLimits
from app.knowledge.ingestion.pipeline import Ingestion
from app.knowledge.queue import ClaimLost, Lease
from tests.fixtures.database.cluster import connected, execute
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.workers import MINUTE, PATIENCE, Bench, change_runner, claim, expire_leases, find_parser
from tests.knowledge.conftest import RunJobs
from tests.knowledge.queue.queueing import NOW, enqueue


async def test_ten_thousand_files_of_one_tenant_do_not_delay_a_file_of_another(
    services: Services, tenant: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    """One worker, one job at a time. The next of two tenants is drawn: 64 misses are practically impossible."""
    await execute(
        superuser_dsn,
        "insert into jobs (tenant_id, id, kind, subject, run_at, model_id)"
        " select $1, gen_random_uuid(), 'ingest_asset', n::text, now() - interval '1 hour', 1"
        " from generate_series(1, 10000) n",
        tenant.id,
    )
    await enqueue(services, other_tenant, "only")
    for _ in range(64):
        job = await claim(services)
        assert job is not None
        if job.tenant_id == other_tenant.id:
            break
        async with services.database.tenant_session(job.tenant_id) as session:
            assert await db.complete_job(session, job)
    else:
        pytest.fail("the other tenant's job waits for those of the first")


async def test_work_of_one_kind_is_found_after_much_other_work(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    """More tenants than a claim examines have earlier work of other kinds."""
    async with connected(superuser_dsn) as superuser:
        await superuser.execute(
            "insert into tenants (id, slug, name, model_id)"
            " select gen_random_uuid(), 'busy-' || n, 'Busy', 1 from generate_series(1, 400) n"
        )
        await superuser.execute(
            "insert into jobs (tenant_id, id, kind, subject, run_at, model_id)"
            " select id, gen_random_uuid(), 'embed_entries', 'entries', now() - interval '1 hour', 0 from tenants"
        )
    async with services.database.tenant_session(tenant.id) as session:
        await db.enqueue_job(session, "deliver_webhooks", "webhooks", NOW)
    job = await db.claim_job(services.database, ["deliver_webhooks"], MINUTE)
    assert job is not None
    assert (job.tenant_id, job.kind) == (tenant.id, "deliver_webhooks")
    assert await db.claim_job(services.database, ["deliver_webhooks"], MINUTE) is None


async def test_a_claim_skips_work_of_other_kinds(services: Services, tenant: Tenant, superuser_dsn: str) -> None:
    """It reads few rows and index entries, for any number of jobs of other kinds."""
    async with connected(superuser_dsn) as superuser:
        await superuser.execute(
            "insert into jobs (tenant_id, id, kind, subject, run_at, model_id)"
            " select $1, gen_random_uuid(), 'embed_entries', n::text, now(), 0 from generate_series(1, 3000) n",
            tenant.id,
        )
        await enqueue(services, tenant, "a")
        await superuser.execute("analyze jobs")
        await superuser.execute("select pg_stat_force_next_flush(), pg_stat_reset()")
        claimed = await superuser.fetch(
            "select kind from queue.claim_job(array['refresh_statistics'], interval '1 minute')"
        )
        assert [row["kind"] for row in claimed] == ["refresh_statistics"]
        await superuser.execute("select pg_stat_force_next_flush()")
        read = await superuser.fetchval(
            "select t.seq_tup_read + (select sum(i.idx_tup_read) from pg_stat_user_indexes i where i.relid = t.relid)"
            " from pg_stat_user_tables t where t.relname = 'jobs'"
        )
        assert 0 < read < 100


async def test_tenant_without_running_work_is_first(services: Services, tenant: Tenant, other_tenant: Tenant) -> None:
    await enqueue(services, tenant, *(str(n) for n in range(10)))
    assert await claim(services) is not None
    await enqueue(services, other_tenant, *(str(n) for n in range(10)))
    owners = []
    for _ in range(3):
        job = await claim(services)
        assert job is not None
        owners.append(job.tenant_id)
    assert owners[0] == other_tenant.id
    assert set(owners) == {tenant.id, other_tenant.id}


async def test_paused_provider_delays_only_its_own_work(
    services: Services, tenant: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    async with connected(superuser_dsn) as superuser:
        other_model = await superuser.fetchval(
            "insert into embedding_models (provider, name, dimensions, max_tokens, similarity_threshold)"
            " values ('openai', 'another', 8, 100, 0.5) returning id"
        )
        await superuser.execute("update tenants set model_id = $1 where id = $2", other_model, other_tenant.id)
    async with services.database.tenant_session(tenant.id) as session:
        await db.enqueue_job(session, "ingest_asset", "a", NOW)
        await db.enqueue_job(session, "embed_entries", "entries", NOW)
        await db.enqueue_job(session, "refresh_statistics", "lexemes", NOW)
    await db.pause_provider(services.database, tenant.id, MINUTE)
    await db.pause_provider(services.database, tenant.id, NOW)
    async with services.database.tenant_session(other_tenant.id) as session:
        await db.enqueue_job(session, "embed_entries", "entries", NOW)
    claimed = set()
    while job := await claim(services):
        claimed.add((job.tenant_id, job.kind))
    assert claimed == {
        (tenant.id, "ingest_asset"),
        (tenant.id, "refresh_statistics"),
        (other_tenant.id, "embed_entries"),
    }
    await expire_leases(superuser_dsn)
    await execute(superuser_dsn, "update embedding_models set paused_until = now()")
    claimed.clear()
    while job := await claim(services):
        claimed.add((job.tenant_id, job.kind))
    assert len(claimed) == 4


async def test_lost_work_of_a_paused_provider_also_waits(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    async with services.database.tenant_session(tenant.id) as session:
        await db.enqueue_job(session, "embed_entries", "entries", NOW)
    assert await claim(services) is not None
    await expire_leases(superuser_dsn)
    await db.pause_provider(services.database, tenant.id, MINUTE)
    assert await claim(services) is None


LONG_FILE = Upload("long.txt", "\n\n".join(f"Paragraph {n} of the log. " * 60 for n in range(200)).encode())


async def test_asset_of_a_dead_worker_is_indexed_by_another_and_not_twice(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, superuser_dsn: str, run_jobs: RunJobs
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
