"""The commands, on a service with a real port, a worker and a database that no other test uses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from uuid import UUID

import pytest

from app.auth.principal import Role
from app.embedded import EmbeddedAddress
from app.embeddings.factory import ProviderConfig, build_provider
from tests.cli.conftest import CommandLine
from tests.fixtures.database.cluster import MODEL, TestDatabase, new_database
from tests.fixtures.http.callers import make_token
from tests.fixtures.http.running_service import RunningService, run_service


@pytest.fixture(scope="session")
async def service_database(cluster: EmbeddedAddress, template: str) -> AsyncIterator[TestDatabase]:
    """A migrated database with the mock model."""
    async with new_database(cluster, template=template) as made:
        yield made


@pytest.fixture(scope="session")
def service(service_database: TestDatabase) -> Iterator[RunningService]:
    """The service on a real port."""
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


def token_of(tenant_id: UUID, *roles: Role) -> str:
    """A token for a tenant."""
    return make_token(tenant_id, *roles)
