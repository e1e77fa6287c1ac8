"""The application over one database for all these tests; each test makes tenants of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import httpx
import pytest
from asgi_lifespan import LifespanManager
from fastapi import FastAPI

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services, build_services
from app.db.database import Database
from app.db.identifiers import new_id
from app.embedded import EmbeddedAddress
from app.knowledge.tenants.directory import Tenant
from app.main import create_app
from app.settings import IngestionSettings, Settings
from tests.api.callers import SECRET, Caller, make_token, open_client
from tests.db.cluster import MODEL, TestDatabase, connected, new_database
from tests.knowledge.provider import FailingProvider


@pytest.fixture(scope="session")
async def api_database(cluster: EmbeddedAddress, template: str) -> AsyncIterator[TestDatabase]:
    """The database of all these tests."""
    async with new_database(cluster, template=template) as made:
        yield made


@pytest.fixture(scope="session")
async def shared_provider() -> FailingProvider:
    return FailingProvider(MODEL)


@pytest.fixture(scope="session")
async def api_services(
    api_database: TestDatabase, shared_provider: FailingProvider
) -> AsyncIterator[Services]:
    """The real services; no worker runs by itself."""
    database = Database(api_database.service_dsn, pool_size=5)
    services = await build_services(database, shared_provider)
    yield services
    await services.close()
    await database.close()


@pytest.fixture(scope="session")
def settings() -> Settings:
    """The defaults, without a worker in the background."""
    return Settings(ingestion=IngestionSettings(worker=False))


@pytest.fixture(scope="session")
def verifier() -> TokenVerifier:
    return TokenVerifier(secret=SECRET)


@pytest.fixture(scope="session")
async def app(settings: Settings, api_services: Services, verifier: TokenVerifier) -> AsyncIterator[FastAPI]:
    """The application, started."""
    app = create_app(settings, api_services, verifier)
    async with LifespanManager(app):
        yield app


@pytest.fixture(scope="session")
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a token."""
    async with open_client(app) as client:
        yield client


@pytest.fixture
def provider(shared_provider: FailingProvider) -> FailingProvider:
    """The provider under the services, working until a test says otherwise."""
    shared_provider.down = False
    shared_provider.delay = 0.0
    shared_provider.documents.clear()
    shared_provider.queries.clear()
    shared_provider.vectors.clear()
    return shared_provider


@pytest.fixture
async def tenant(api_services: Services, provider: FailingProvider) -> Tenant:
    """A tenant of the test's own."""
    return await api_services.tenants.create(f"t-{new_id().hex}", "Tests", actor="test")


@pytest.fixture
async def admin(http: httpx.AsyncClient, tenant: Tenant) -> Caller:
    """The test's tenant's admin, who may do everything in it."""
    return Caller(http, tenant.id, make_token(tenant.id, Role.TENANT_ADMIN))


@pytest.fixture
async def caller(address: str, admin: Caller) -> AsyncIterator[Caller]:
    """The tenant's admin over a socket, at the `address` of whoever asks."""
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=30) as client:
        yield replace(admin, http=client)


@pytest.fixture
async def reader(http: httpx.AsyncClient, tenant: Tenant) -> Caller:
    """A reader of the test's tenant."""
    return Caller(http, tenant.id, make_token(tenant.id, Role.READER, subject="rita"))


@pytest.fixture
async def stranger(http: httpx.AsyncClient, api_services: Services) -> Caller:
    """The admin of another tenant."""
    other = await api_services.tenants.create(f"s-{new_id().hex}", "Strangers", actor="test")
    return Caller(http, other.id, make_token(other.id, Role.TENANT_ADMIN, subject="sam"))


@pytest.fixture
async def platform(http: httpx.AsyncClient) -> Caller:
    """A platform administrator."""
    return Caller(http, None, make_token(None, Role.PLATFORM_ADMIN, subject="paula"))


@pytest.fixture
async def work(api_services: Services, api_database: TestDatabase) -> Callable[[], Awaitable[None]]:
    """Does all queued work of the test that is due, whatever earlier ones have left behind: work, or an outage."""
    async with connected(api_database.superuser_dsn) as superuser:
        await superuser.execute("delete from jobs")

    async def work() -> None:
        async with connected(api_database.superuser_dsn) as superuser:
            await superuser.execute("update embedding_models set paused_until = null")
        while await api_services.worker.run_once():
            pass

    return work
