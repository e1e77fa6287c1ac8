"""A service on a port and at its private socket, and one on a database that no other test uses."""

from collections.abc import AsyncIterator, Iterator

import pytest

from app.embedded import EmbeddedAddress
from app.embeddings.factory import ProviderConfig, build_provider
from app.settings import load_settings
from tests.cli.conftest import ENCRYPTION_KEY, SECRET, CommandLine
from tests.cli.door.ways import Served, Ways, run_served
from tests.fixtures.database.cluster import MODEL, TestDatabase, new_database
from tests.fixtures.http.running_service import RunningService, run_service


@pytest.fixture(scope="module")
def served(cli_database: TestDatabase) -> Iterator[Served]:
    """A service with the settings of the commands."""
    settings = load_settings(
        {
            "EMBEDDING_PROVIDER": "mock",
            "EMBEDDING_DIMENSIONS": str(MODEL.dimensions),
            "DATABASE_URL": cli_database.service_dsn,
            "JWT_SECRET": SECRET,
            "KB_ENCRYPTION_KEY": ENCRYPTION_KEY,
        },
        None,
        identity_required=False,
    )
    with run_served(settings) as running:
        yield running


@pytest.fixture
def ways(knowledge: CommandLine, served: Served) -> Ways:
    return Ways(knowledge, served)


@pytest.fixture(scope="session")
async def service_database(cluster: EmbeddedAddress, template: str) -> AsyncIterator[TestDatabase]:
    """A migrated database with the mock model."""
    async with new_database(cluster, template=template) as made:
        yield made


@pytest.fixture(scope="session")
def service(service_database: TestDatabase) -> Iterator[RunningService]:
    provider = build_provider(ProviderConfig(kind="mock", dimensions=MODEL.dimensions))
    with run_service(service_database.service_dsn, provider) as running:
        yield running


@pytest.fixture
def remote(offline: CommandLine, service: RunningService, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command, with the address and the token of the admin of a new tenant, and no database."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://none@127.0.0.1:1/none")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("KB_URL", service.url)
    monkeypatch.setenv("KB_TOKEN", service.new_token())
    return offline


@pytest.fixture(params=[pytest.param("here", marks=pytest.mark.slow), "elsewhere"])
def anywhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command in a new tenant that no option names, on the database or at the service."""
    if request.param == "elsewhere":
        found: CommandLine = request.getfixturevalue("remote")
        return found
    here: CommandLine = request.getfixturevalue("knowledge")
    monkeypatch.setenv("KB_TENANT", request.getfixturevalue("tenant"))
    return here
