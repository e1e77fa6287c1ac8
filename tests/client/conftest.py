"""One running service for all these tests, with the local model; each test creates its own tenants."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from app.db.schema.owner import register_model
from app.embedded import EmbeddedAddress
from app.embeddings.factory import ProviderConfig, build_provider
from knowledge_client import AsyncKnowledgeClient, KnowledgeClient
from tests.client.callers import LOCAL, ClientCaller, make_client
from tests.fixtures.database.cluster import new_database
from tests.fixtures.http.running_service import RunningService, run_service


@pytest.fixture(scope="session")
async def service(cluster: EmbeddedAddress, template: str) -> AsyncIterator[RunningService]:
    """The service on a real port."""
    provider = build_provider(ProviderConfig(kind="local"))
    async with new_database(cluster, template=template) as made:
        await register_model(made.admin_dsn, provider.model)
        with run_service(made.service_dsn, provider) as running:
            yield running


@pytest.fixture
def token(service: RunningService) -> str:
    """The token of an admin of a tenant created for the test."""
    return service.new_token()


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture(params=["sync", pytest.param("async", marks=pytest.mark.slow)])
def live_kind(request: pytest.FixtureRequest) -> str:
    """The kind of client, where every request goes to the service; LangChain's tests use the other kind too."""
    live_kind: str = request.param
    return live_kind


@pytest.fixture
async def call(live_kind: str, service: RunningService, token: str) -> AsyncIterator[ClientCaller]:
    """Calls each client's methods in the test's tenant."""
    caller = make_client(live_kind, service.url, token)
    yield caller
    await caller.close()


@pytest.fixture
def client(service: RunningService, token: str) -> Iterator[KnowledgeClient]:
    """The blocking client, in the test's tenant."""
    with httpx.Client(**LOCAL) as http:
        yield KnowledgeClient(service.url, token, http=http)


@pytest.fixture
async def async_client(service: RunningService, token: str) -> AsyncIterator[AsyncKnowledgeClient]:
    """The async client, in the test's tenant."""
    async with httpx.AsyncClient(**LOCAL) as http:
        yield AsyncKnowledgeClient(service.url, token, http=http)
