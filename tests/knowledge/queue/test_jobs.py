"""The queue: leases, fences, releases, and jobs that another worker continues."""

import asyncio
from datetime import timedelta

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.db.queries import jobs as db
from app.knowledge.queue import JobQueue
from tests.fixtures.database.cluster import connected
from tests.fixtures.workers import MINUTE, claim, expire_leases
from tests.knowledge.queue.queueing import NOW, enqueue

pytestmark = pytest.mark.own_tenants


async def test_job_is_claimed_once_and_removed_when_done(services: Services, tenant: Tenant) -> None:
    await enqueue(services, tenant, "a")
    job = await claim(services)
    assert job is not None
    assert (job.tenant_id, job.subject, job.attempts, job.fence) == (tenant.id, "a", 1, 1)
    assert await claim(services) is None
    async with services.database.tenant_session(tenant.id) as session:
        assert await db.complete_job(session, job)
        assert not await db.complete_job(session, job)
        assert await session.fetch_value(db.SQL["count"]) == 0


async def test_equal_work_is_queued_once_at_the_earlier_time(services: Services, tenant: Tenant) -> None:
    await enqueue(services, tenant, "a", delay=MINUTE)
    assert await claim(services) is None
    await enqueue(services, tenant, "a", "a")
    assert await claim(services) is not None
    assert await claim(services) is None
    await enqueue(services, tenant, "a")
    again = await claim(services)
    assert again is not None, "work that is already running may have missed what is new"


async def test_next_due_is_when_a_job_can_be_claimed(services: Services, tenant: Tenant, superuser_dsn: str) -> None:
    async def due() -> int | None:
        seconds = await db.next_due(services.database, ["refresh_statistics", "embed_entries"])
        return None if seconds is None else round(seconds / 60)

    assert await due() is None
    await enqueue(services, tenant, "a", delay=5 * MINUTE)
    assert await due() == 5
    assert await db.next_due(services.database, ["erase"]) is None
    async with services.database.tenant_session(tenant.id) as session:
        await db.enqueue_job(session, "embed_entries", "entries", MINUTE)
    assert await due() == 1
    await db.pause_provider(services.database, tenant.id, 3 * MINUTE)
    assert await due() == 3
    async with connected(superuser_dsn) as superuser:
        await superuser.execute("update embedding_models set paused_until = null")
        await superuser.execute("update jobs set run_at = now() - interval '2 minutes'")
    assert await due() == -2
    assert await claim(services, 7 * MINUTE) is not None
    assert await claim(services, 9 * MINUTE) is not None
    assert await due() == 7, "the lease of a worker that may die"


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


async def test_job_of_a_dead_worker_is_claimed_again_and_the_dead_one_changes_nothing(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    await enqueue(services, tenant, "a")
    dead = await claim(services)
    assert dead is not None
    await expire_leases(superuser_dsn)
    living = await claim(services)
    assert living is not None
    assert (living.id, living.fence) == (dead.id, dead.fence + 1)
    assert (living.attempts, living.lost) == (1, 1), "the same try, begun again"
    async with services.database.tenant_session(tenant.id) as session:
        assert not await db.extend_lease(session, dead, MINUTE)
        assert not await db.complete_job(session, dead)
        await db.release_job(session, dead, NOW, counts=True)
    assert await claim(services) is None, "the late release did not free the job"
    async with services.database.tenant_session(tenant.id) as session:
        assert await db.extend_lease(session, living, MINUTE)
        assert await db.complete_job(session, living)


async def test_job_of_a_dead_worker_is_claimed_before_waiting_work(
    services: Services, tenant: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    await enqueue(services, tenant, "orphan")
    orphan = await claim(services)
    assert orphan is not None
    await enqueue(services, tenant, *(str(n) for n in range(10)))
    await enqueue(services, other_tenant, *(str(n) for n in range(10)))
    await expire_leases(superuser_dsn)
    again = await claim(services)
    assert again is not None
    assert again.id == orphan.id


async def test_postponed_job_waits_twice_as_long_each_time(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    await enqueue(services, tenant, "a")
    waits = []
    async with connected(superuser_dsn) as superuser:
        for postponed in range(8):
            job = await claim(services)
            assert job is not None
            assert (job.attempts, job.postponed) == (1, postponed)
            async with services.database.tenant_session(tenant.id) as session:
                await db.release_job(session, job, timedelta(seconds=15), counts=False, postpones=True)
            wait = await superuser.fetchval("select run_at - clock_timestamp() from jobs")
            waits.append(round(wait.total_seconds() / 15))
            await superuser.execute("update jobs set run_at = now()")
    assert waits == [1, 2, 4, 8, 16, 20, 20, 20]


async def test_release_counts_an_attempt_only_on_request(services: Services, tenant: Tenant) -> None:
    await enqueue(services, tenant, "a")
    for counts, attempts in ((False, 1), (False, 1), (True, 1), (True, 2), (False, 3)):
        job = await claim(services)
        assert job is not None
        assert job.attempts == attempts
        async with services.database.tenant_session(tenant.id) as session:
            await db.release_job(session, job, NOW, counts=counts)


async def test_released_job_yields_to_equal_work_queued_in_the_meantime(services: Services, tenant: Tenant) -> None:
    await enqueue(services, tenant, "a")
    job = await claim(services)
    assert job is not None
    await enqueue(services, tenant, "a")
    async with services.database.tenant_session(tenant.id) as session:
        await db.release_job(session, job, MINUTE, counts=True)
        assert await session.fetch_value(db.SQL["count"]) == 1
    assert await claim(services) is not None


async def test_running_worker_is_woken_by_new_work(services: Services, tenant: Tenant) -> None:
    working = asyncio.create_task(services.worker.run())
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", b"# Harbour\n\nBoats lie here."))
    try:
        async with asyncio.timeout(60):
            while (await services.assets.get(tenant.id, asset.id)).status != "indexed":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working


async def test_a_call_is_not_missed_by_a_worker_that_looks_while_another_begins_to() -> None:
    jobs = JobQueue()
    looking = jobs.calls
    jobs.wake()
    begun = jobs.calls
    await asyncio.wait_for(jobs.wait(looking), 60)
    waiting = [asyncio.create_task(jobs.wait(begun)) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    jobs.wake()
    await asyncio.wait_for(asyncio.gather(*waiting), 60)
