"""The queue: leases, fences, fairness, and work that is taken over."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from app.composition import Services
from app.db import jobs as db
from app.db.jobs import Job
from app.knowledge.assets import Upload
from app.knowledge.ingestion import ClaimLost, Ingestion
from app.knowledge.tenants import Tenant
from app.knowledge.worker import KINDS, Worker
from tests.db.cluster import connected
from tests.knowledge.conftest import RunJobs
from tests.knowledge.provider import FailingProvider

MINUTE = timedelta(minutes=1)
NOW = timedelta(0)


async def enqueue(services: Services, tenant: Tenant, *subjects: str, delay: timedelta = NOW) -> None:
    async with services.database.tenant_session(tenant.id) as session:
        for subject in subjects:
            await db.enqueue_job(session, "refresh_statistics", subject, delay)


async def claim(services: Services, lease: timedelta = MINUTE) -> Job | None:
    async with services.database.platform_session() as session:
        return await db.claim_job(session, KINDS, lease)


async def expire_leases(superuser_dsn: str) -> None:
    async with connected(superuser_dsn) as superuser:
        await superuser.execute("update jobs set lease_until = clock_timestamp() - interval '1 second'")


async def test_job_is_claimed_once_and_removed_when_done(services: Services, tenant: Tenant) -> None:
    await enqueue(services, tenant, "a")
    job = await claim(services)
    assert job is not None
    assert (job.tenant_id, job.subject, job.attempts, job.fence) == (tenant.id, "a", 1, 1)
    assert await claim(services) is None
    async with services.database.tenant_session(tenant.id) as session:
        assert await db.complete_job(session, job)
        assert not await db.complete_job(session, job)
        assert await session.fetch_value(db.SQL["count"], tenant_id=tenant.id) == 0


async def test_equal_work_is_queued_once_at_the_earlier_time(services: Services, tenant: Tenant) -> None:
    await enqueue(services, tenant, "a", delay=MINUTE)
    assert await claim(services) is None
    await enqueue(services, tenant, "a", "a")
    assert await claim(services) is not None
    assert await claim(services) is None
    await enqueue(services, tenant, "a")
    again = await claim(services)
    assert again is not None, "work that is already running may have missed what is new"


async def test_rolled_back_transaction_queues_nothing(services: Services, tenant: Tenant) -> None:
    async def fail() -> None:
        async with services.database.tenant_session(tenant.id) as session:
            await db.enqueue_job(session, "refresh_statistics", "a", NOW)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await claim(services) is None


async def test_concurrent_workers_never_claim_the_same_job(services: Services, tenant: Tenant) -> None:
    await enqueue(services, tenant, *(str(n) for n in range(20)))
    claimed = [job for job in await asyncio.gather(*(claim(services) for _ in range(30))) if job]
    assert len(claimed) == len({job.id for job in claimed})
    while job := await claim(services):
        claimed.append(job)
    assert {job.subject for job in claimed} == {str(n) for n in range(20)}


async def test_job_of_a_dead_worker_is_taken_over_and_the_dead_one_changes_nothing(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    await enqueue(services, tenant, "a")
    dead = await claim(services)
    assert dead is not None
    await expire_leases(superuser_dsn)
    living = await claim(services)
    assert living is not None
    assert (living.id, living.fence, living.attempts) == (dead.id, dead.fence + 1, 2)
    async with services.database.tenant_session(tenant.id) as session:
        assert not await db.extend_lease(session, dead, MINUTE)
        assert not await db.complete_job(session, dead)
        await db.release_job(session, dead, NOW, counts=True)
    assert await claim(services) is None, "the late release did not free the job"
    async with services.database.tenant_session(tenant.id) as session:
        assert await db.extend_lease(session, living, MINUTE)
        assert await db.complete_job(session, living)


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
    dying = asyncio.create_task(slow.ingest(job))
    await failing_provider.entered.wait()
    await expire_leases(superuser_dsn)
    assert await run_jobs() == 1
    before = await services.entries.list_entries(tenant.id)
    assert (await services.assets.get(tenant.id, asset.id)).status == "indexed"
    go_on.set()
    with pytest.raises(ClaimLost):
        await dying
    await slow.fail(job, "late failure")
    assert (await services.entries.list_entries(tenant.id)).items == before.items
    assert (await services.assets.get(tenant.id, asset.id)).status == "indexed"


async def test_tenant_with_much_work_does_not_keep_others_waiting(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    await enqueue(services, tenant, *(str(n) for n in range(10)))
    await enqueue(services, other_tenant, "only")
    owners = []
    for _ in range(4):
        job = await claim(services)
        assert job is not None
        owners.append(job.tenant_id)
    assert owners[:2] == [tenant.id, other_tenant.id]
    assert owners[2:] == [tenant.id, tenant.id]


async def test_release_counts_attempts_only_where_it_says_so(services: Services, tenant: Tenant) -> None:
    await enqueue(services, tenant, "a")
    for counts, attempts in ((False, 1), (False, 1), (True, 1), (True, 2), (False, 3)):
        job = await claim(services)
        assert job is not None
        assert job.attempts == attempts
        async with services.database.tenant_session(tenant.id) as session:
            await db.release_job(session, job, NOW, counts=counts)


async def test_release_gives_way_to_equal_work_queued_meanwhile(services: Services, tenant: Tenant) -> None:
    await enqueue(services, tenant, "a")
    job = await claim(services)
    assert job is not None
    await enqueue(services, tenant, "a")
    async with services.database.tenant_session(tenant.id) as session:
        await db.release_job(session, job, MINUTE, counts=True)
        assert await session.fetch_value(db.SQL["count"], tenant_id=tenant.id) == 1
    assert await claim(services) is not None


async def test_deleted_tenants_work_is_given_up(
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


async def test_cancelled_worker_gives_its_job_back_at_once(
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


async def test_lease_is_renewed_while_the_work_goes_on(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    await services.assets.upload(tenant.id, Upload("a.md", b"# Harbour\n\nBoats lie here."))
    worker = Worker(
        services.database,
        services.jobs,
        Ingestion(services.database, {1: failing_provider}, services.tenants),
        services.embedder,
        upkeep=services.worker._upkeep,
        lease=timedelta(seconds=1.2),
    )
    go_on = failing_provider.hold_next_call()
    working = asyncio.create_task(worker.run_once())
    await failing_provider.entered.wait()
    for _ in range(3):
        await asyncio.sleep(0.6)
        assert await claim(services) is None
    go_on.set()
    assert await working
    assert (await services.administration.stats(tenant.id))["assets_by_status"] == {"indexed": 1}


async def test_running_worker_is_woken_by_new_work(services: Services, tenant: Tenant) -> None:
    working = asyncio.create_task(services.worker.run())
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", b"# Harbour\n\nBoats lie here."))
    try:
        async with asyncio.timeout(20):
            while (await services.assets.get(tenant.id, asset.id)).status != "indexed":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
