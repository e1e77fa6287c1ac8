"""A running application for each test, and mixed traffic that is generated once for all tests."""

from collections.abc import AsyncIterator

import pytest

from app.embedded import EmbeddedAddress
from tests.fixtures.http.routes import list_endpoints
from tests.operation.service import Operated, open_operated
from tests.operation.traffic import Traffic, make_traffic, scrape


@pytest.fixture
async def operated(cluster: EmbeddedAddress, template: str) -> AsyncIterator[Operated]:
    """An application over a database of its own."""
    async with open_operated(cluster, template) as operated:
        yield operated


@pytest.fixture(scope="session")
async def traffic(cluster: EmbeddedAddress, template: str) -> Traffic:
    """Mixed traffic, generated once."""
    async with open_operated(cluster, template) as operated:
        before = await scrape(operated)
        secrets = await make_traffic(operated)
        await operated.services.journal.flush()
        routes = frozenset(route.path for route in list_endpoints(operated.app)) | {"unmatched", "/mcp"}
        after = (await operated.http.get("/metrics")).text
    return Traffic(before, after, secrets, routes)
