"""Two tenants with the same knowledge in one database, access that only a superuser has, and the log."""

import io
from collections.abc import AsyncIterator, Iterator

import pytest

from app.telemetry.logs import configure_logging
from tests.fixtures.database.cluster import Connection, connected
from tests.fixtures.database.seeded import Seeded
from tests.fixtures.logs import restored_logging


@pytest.fixture
async def breaker(seeded: Seeded) -> AsyncIterator[Connection]:
    """A superuser in a transaction that is undone, so that the next test finds the database intact."""
    async with connected(seeded.database.superuser_dsn) as connection:
        undo = connection.transaction()
        await undo.start()
        yield connection
        await undo.rollback()


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Everything that the service logs at level debug."""
    with restored_logging():
        stream = io.StringIO()
        configure_logging("debug", json=True, stream=stream)
        yield stream
