"""Two tenants with the same knowledge in one database, and access that only a superuser has."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fixtures.database.cluster import Connection, connected
from tests.fixtures.database.seeded import Seeded


@pytest.fixture
async def breaker(seeded: Seeded) -> AsyncIterator[Connection]:
    """A superuser in a transaction that is undone, so that the next test finds the database intact."""
    async with connected(seeded.database.superuser_dsn) as connection:
        undo = connection.transaction()
        await undo.start()
        yield connection
        await undo.rollback()
