"""Services whose database and provider are reached through proxies that fail on demand."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from app.composition.database import SERVICE
from app.db.schema.owner import register_model
from app.embedded import EmbeddedAddress
from app.embeddings.provider import resolve_model
from tests.faults.proxy import FaultProxy, proxy_to
from tests.fixtures.database.cluster import PASSWORDS, TestDatabase, new_database
from tests.fixtures.providers.wire import DIMENSIONS, WireServer

OPENAI_MODEL = resolve_model("openai", "text-embedding-3-small", DIMENSIONS)


@pytest.fixture
async def provider_proxy(wire: WireServer) -> AsyncIterator[FaultProxy]:
    """The proxy between the service and the provider."""
    async with proxy_to(("127.0.0.1", int(wire.url.rpartition(":")[2]))) as proxy:
        yield proxy


@pytest.fixture
async def database_proxy(fresh_database: TestDatabase) -> AsyncIterator[FaultProxy]:
    """The proxy between the service and Postgres."""
    async with proxy_to(Path(fresh_database.address.socket_dir) / ".s.PGSQL.5432") as proxy:
        yield proxy


def dsn_through(proxy: FaultProxy, name: str) -> str:
    """The address of a database behind a proxy, as the service's role."""
    password = quote(PASSWORDS[SERVICE])
    return f"postgresql://{SERVICE}:{password}@127.0.0.1:{proxy.port}/{name}?sslmode=disable"


@pytest.fixture(scope="session")
async def openai_database(cluster: EmbeddedAddress, template: str) -> AsyncIterator[TestDatabase]:
    """A database in which a model of OpenAI is registered."""
    async with new_database(cluster, template=template) as made:
        await register_model(made.admin_dsn, OPENAI_MODEL)
        yield made
