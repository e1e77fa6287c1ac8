"""Workers hear of the jobs of other processes, and begin them when they are due. They look for others once an hour."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.db.database import Database
from app.db.queries import jobs as db
from app.db.rows import Connection
from app.embedded import EmbeddedAddress
from app.knowledge import announcements
from app.knowledge.announcements import Announcements
from app.knowledge.queue import JobQueue
from tests.fixtures.database.bouncer import bounced
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.workers import PATIENCE, claim
from tests.knowledge.queue.queueing import enqueue

SOON = timedelta(seconds=0.2)


@asynccontextmanager
async def another_process(made: TestDatabase, provider: FailingProvider, way: str) -> AsyncIterator[Services]:
    """The services of another process, at the database itself or through a pooler."""
    if way == "direct":
        database = Database(made.service_dsn, pool_size=3)
        try:
            yield await build_services(database, provider)
        finally:
            await database.close()
        return
    async with bounced(made, connections=3) as dsn:
        database = Database(dsn, pool_size=3, prepared_statements=False)
        try:
            yield await build_services(database, provider, direct_dsn=made.service_dsn)
        finally:
            await database.close()


@pytest.mark.parametrize("way", ["direct", "pooler"])
async def test_worker_of_another_process_is_notified_of_new_work(
    services: Services, tenant: Tenant, fresh_database: TestDatabase, failing_provider: FailingProvider, way: str
) -> None:
    """A worker that polls once an hour, with a separate queue object that no caller wakes."""
    async with (
        another_process(fresh_database, failing_provider, way) as elsewhere,
        working_hourly(elsewhere),
        asyncio.timeout(60),
        connected(fresh_database.superuser_dsn) as superuser,
    ):
        await find_listener(superuser)
        for name in (b"a", b"b"):
            asset, _ = await services.assets.upload(tenant.id, Upload("a.md", b"Boats lie here: " + name))
            while (await services.assets.get(tenant.id, asset.id)).status != "indexed":  # noqa: ASYNC110
                await asyncio.sleep(0.02)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", ["announced", "found", "of a dead worker"])
async def test_a_job_is_begun_when_it_is_due(
    services: Services, tenant: Tenant, fresh_database: TestDatabase, failing_provider: FailingProvider, way: str
) -> None:
    async with (
        another_process(fresh_database, failing_provider, "direct") as elsewhere,
        asyncio.timeout(PATIENCE),
        connected(fresh_database.superuser_dsn) as superuser,
    ):
        if way != "announced":
            await enqueue(services, tenant, "a", delay=timedelta(0) if way == "of a dead worker" else SOON)
        if way == "of a dead worker":
            assert await claim(services, SOON) is not None
        async with working_hourly(elsewhere):
            if way == "announced":
                await find_listener(superuser)
                await enqueue(services, tenant, "a", delay=10 * SOON)
                await enqueue(services, tenant, "b", delay=SOON)
            await wait_until_done(superuser)


async def test_a_released_job_is_begun_by_another_process(
    services: Services, tenant: Tenant, fresh_database: TestDatabase, failing_provider: FailingProvider
) -> None:
    await enqueue(services, tenant, "a")
    job = await claim(services)
    assert job is not None
    async with (
        another_process(fresh_database, failing_provider, "direct") as elsewhere,
        working_hourly(elsewhere),
        asyncio.timeout(PATIENCE),
        connected(fresh_database.superuser_dsn) as superuser,
    ):
        await find_listener(superuser)
        async with services.database.tenant_session(tenant.id) as session:
            await db.release_job(session, job, SOON, counts=True)
        await wait_until_done(superuser)


async def test_a_broken_connection_is_replaced(
    services: Services,
    tenant: Tenant,
    fresh_database: TestDatabase,
    failing_provider: FailingProvider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(announcements, "AGAIN_SECONDS", 0.05)
    async with (
        another_process(fresh_database, failing_provider, "direct") as elsewhere,
        working_hourly(elsewhere),
        asyncio.timeout(PATIENCE),
        connected(fresh_database.superuser_dsn) as superuser,
    ):
        first = await find_listener(superuser)
        await superuser.execute("select pg_terminate_backend($1)", first)
        assert await find_listener(superuser, other_than=first) != first
        await enqueue(services, tenant, "a")
        await wait_until_done(superuser)


async def test_notifications_that_do_not_arrive_are_noticed(
    services: Services, cluster: EmbeddedAddress, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At another database the connection is made but hears nothing, as through a pooler that shares connections."""
    monkeypatch.setattr(db, "PROBE_SECONDS", 0.05)
    heard = Announcements(services.database, JobQueue(), cluster.dsn(database="postgres"))
    hearing = asyncio.create_task(heard.hear())
    try:
        async with asyncio.timeout(PATIENCE):
            while "no notifications of new jobs arrive" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not await heard.arrive()
    finally:
        hearing.cancel()
        await asyncio.wait([hearing])


async def find_listener(superuser: Connection, other_than: int = 0) -> int:
    """The process id of the connection that listens, once there is one."""
    sql = (
        "select max(pid) from pg_stat_activity"
        " where datname = current_database() and query ilike 'listen%' and pid <> $1"
    )
    while not (pid := await superuser.fetchval(sql, other_than)):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return int(pid)


async def wait_until_done(superuser: Connection) -> None:
    """Wait until there is no job left."""
    while await superuser.fetchval("select exists (select from jobs)"):  # noqa: ASYNC110
        await asyncio.sleep(0.02)


@asynccontextmanager
async def working_hourly(services: Services) -> AsyncIterator[None]:
    """A worker that looks for jobs once an hour, unless it is notified."""
    working = asyncio.create_task(replace(services.worker, poll_seconds=3600.0).run())
    try:
        yield
    finally:
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        await services.close()
