"""Fixtures that run queued work at once, instead of when it is due."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import NewTenant, Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.settings import SettingsPatch
from app.db.database import Database
from app.db.rows import new_id
from app.embedded import EmbeddedAddress
from app.knowledge.subscriptions.webhooks import WebhookSender
from app.knowledge.transfer.tenant import PART_BYTES
from tests.fixtures.database.cluster import MODEL, connected, new_database
from tests.fixtures.database.tenant_rows import fill_tenant
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.workers import Bench, run_due
from tests.knowledge.subscriptions.endpoint import ANYWHERE, open_endpoint
from tests.knowledge.subscriptions.subscribing import Desk

RunJobs = Callable[[], Awaitable[int]]


@pytest.fixture
def run_jobs(services: Services, superuser_dsn: str) -> RunJobs:
    """Make all queued work due, end pauses, and run it; returns the number of jobs that were claimed."""

    async def run() -> int:
        async with connected(superuser_dsn) as superuser:
            await superuser.execute("update jobs set run_at = now() where state = 'queued'")
            await superuser.execute("update embedding_models set paused_until = null")
        done = 0
        while await services.worker.run_once():
            done += 1
        return done

    return run


@pytest.fixture(scope="session")
async def shared_desk(cluster: EmbeddedAddress, template: str) -> AsyncIterator[Desk]:
    """Services whose webhooks may go to this machine, with one database for all tests of `desk`."""
    async with new_database(cluster, template=template) as made, open_endpoint() as endpoint:
        database = Database(made.service_dsn, pool_size=5)
        provider = FailingProvider(MODEL)
        services = await build_services(
            database, provider, webhooks=WebhookSender(ANYWHERE, seconds=5), messages_per_minute=1_000_000
        )
        tenant = await services.tenants.create(NewTenant("nobody"), actor="test")
        yield Desk(services, provider, tenant, endpoint, made.superuser_dsn, made.service_dsn)
        await services.close()
        await database.close()


@pytest.fixture
async def desk(shared_desk: Desk) -> AsyncIterator[Desk]:
    """A new tenant, the only one with data, and an endpoint that records what is sent to it."""
    services = shared_desk.services
    provider = FailingProvider(MODEL)
    vars(shared_desk.provider).update(vars(provider))
    tenant = await services.tenants.create(NewTenant(f"t-{new_id().hex}"), actor="test")
    await shared_desk.sql("update embedding_models set paused_until = null")
    async with open_endpoint() as endpoint:
        yield replace(shared_desk, tenant=tenant, endpoint=endpoint)
    await services.subscriptions.close()
    await services.journal.flush()
    for left in await services.tenants.list_tenants():
        await services.tenants.delete(left.id, actor="test")


@pytest.fixture
def bench(services: Services, tenant: Tenant, superuser_dsn: str, failing_provider: FailingProvider) -> Bench:
    """Workers for the files of `tenant`, and access to their jobs."""
    return Bench(services, tenant, superuser_dsn, failing_provider)


@pytest.fixture
async def full(services: Services, tenant: Tenant, failing_provider: FailingProvider, superuser_dsn: str) -> Tenant:
    """A tenant with rows in every table, entries that refer to each other, and an asset of several parts."""
    await fill_tenant(services, tenant, failing_provider, superuser_dsn)
    broken = b"%PDF-1.7 no PDF " * (PART_BYTES // 12)
    asset, _ = await services.assets.upload(
        tenant.id, Upload("bad.pdf", broken, external_id="bad", metadata={"a": 0.1, "b": 10**18})
    )
    await run_due(services.worker)
    assert (await services.assets.get(tenant.id, asset.id)).status == "failed"
    newer, _ = await services.entries.create(tenant.id, EntryDraft(content="The newer truth", title="Truth"))
    await services.entries.create(
        tenant.id,
        EntryDraft(
            content='An older “truth” – with signs \u2028 and \\ and "',
            superseded_by_id=newer.id,
            parent_id=newer.id,
            expires_at=newer.created_at.replace(year=2090),
            confidence=0.1,
            metadata={"n": [1, 2.5e-7, None, {"x": "ä"}]},
        ),
    )
    await services.tenants.change_settings(
        tenant.id, SettingsPatch(fusion="score", type_weights={"fact": 3.5}), actor="test"
    )
    return tenant
