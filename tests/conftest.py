"""What tests share: one Postgres a run, a fresh migrated database a test, and the real services on it.

Nothing here starts anything until a test asks for it.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.composition.database import SERVICE, create_roles, prepare
from app.composition.services import Services, build_services
from app.db.database import Database
from app.db.schema.registration import register_model
from app.embedded import EmbeddedAddress, EmbeddedPostgres
from app.embeddings.factory import ProviderConfig, build_provider
from app.knowledge.tenants.directory import Tenant
from tests.db.cluster import FAST, MODEL, PASSWORDS, TestDatabase, connected, new_database
from tests.knowledge.provider import FailingProvider

TEMPLATE = "kb_template"
MEMORY = Path("/dev/shm")  # noqa: S108
ROOM = 4 * 1024**3
"""Bytes that must be free there: a run has two clusters, each with a few databases and the log of their writes."""


@pytest.fixture(scope="session")
def cluster_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where this run's cluster lies: in memory where there is room, since hundreds of databases come and go."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        yield tmp_path_factory.mktemp("cluster")
        return
    with tempfile.TemporaryDirectory(prefix="kb-tests-", dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
async def cluster(cluster_folder: Path) -> AsyncIterator[EmbeddedAddress]:
    """The embedded Postgres of this run, with the roles that a managed server would have."""
    server = EmbeddedPostgres(cluster_folder / "data", settings=FAST)
    address = await asyncio.to_thread(server.start)
    try:
        await create_roles(address.dsn(), PASSWORDS)
        yield address
    finally:
        await asyncio.to_thread(server.stop)


@pytest.fixture(scope="session")
async def template(cluster: EmbeddedAddress) -> str:
    """The name of a database that is migrated and has the mock model of 16 dimensions; to be copied."""
    async with connected(cluster.dsn(database="postgres")) as superuser:
        await superuser.execute(f"create database {TEMPLATE} owner kb_migrator")
    made = TestDatabase(TEMPLATE, cluster)
    async with connected(made.superuser_dsn) as superuser:
        await superuser.execute("create extension vector")
    await prepare(made.admin_dsn, service_role=SERVICE, model=MODEL)
    return TEMPLATE


@pytest.fixture
async def fresh_database(cluster: EmbeddedAddress, template: str) -> AsyncIterator[TestDatabase]:
    """A fresh copy of the template for one test."""
    async with new_database(cluster, template=template) as made:
        yield made


@pytest.fixture
def superuser_dsn(fresh_database: TestDatabase) -> str:
    """The test's database as superuser, who sees every tenant's rows."""
    return fresh_database.superuser_dsn


@pytest.fixture
def admin_dsn(fresh_database: TestDatabase) -> str:
    """The test's database as kb_migrator: DATABASE_ADMIN_URL."""
    return fresh_database.admin_dsn


@pytest.fixture
def service_dsn(fresh_database: TestDatabase) -> str:
    """The test's database as kb_service: DATABASE_URL."""
    return fresh_database.service_dsn


@pytest.fixture
async def database(service_dsn: str) -> AsyncIterator[Database]:
    """The application's database object, logged in as kb_service."""
    database = Database(service_dsn, pool_size=5)
    yield database
    await database.close()


@pytest.fixture
def failing_provider() -> FailingProvider:
    """The provider under `services`: works like the mock until `down` or `delay` is set, and records texts."""
    return FailingProvider(MODEL)


@pytest.fixture
async def services(database: Database, failing_provider: FailingProvider) -> AsyncIterator[Services]:
    """The real services over the test's database and `failing_provider`. No worker runs: call `worker.run_once`."""
    services = await build_services(database, failing_provider)
    yield services
    await services.close()


@pytest.fixture
async def tenant(services: Services) -> Tenant:
    """A tenant without knowledge."""
    return await services.tenants.create("first", "First tenant", actor="test")


@pytest.fixture
async def other_tenant(services: Services) -> Tenant:
    """Another tenant, from which everything must be kept apart."""
    return await services.tenants.create("second", "Second tenant", actor="test")


@pytest.fixture(scope="session")
async def local_services(cluster: EmbeddedAddress, template: str) -> AsyncIterator[Services]:
    """Services over the local embedding model, for tests about meaning; make a tenant of your own in each."""
    provider = build_provider(ProviderConfig(kind="local"))
    async with new_database(cluster, template=template) as made:
        await register_model(made.admin_dsn, provider.model)
        database = Database(made.service_dsn, pool_size=5)
        services = await build_services(database, provider)
        yield services
        await services.close()
        await provider.close()
        await database.close()
