"""Databases with few connections, so that sessions share them."""

from collections.abc import AsyncIterator

import pytest

from app.db.database import Database
from tests.fixtures.database.seeded import Seeded


@pytest.fixture
async def pool(seeded: Seeded) -> AsyncIterator[Database]:
    """Three connections, shared by all sessions of a test."""
    database = Database(seeded.database.service_dsn, pool_size=3, pool_timeout=20)
    yield database
    await database.close()


@pytest.fixture
async def single(seeded: Seeded) -> AsyncIterator[Database]:
    """One connection, so that anything that a transaction leaves behind reaches the next one."""
    database = Database(seeded.database.service_dsn, pool_size=1, pool_timeout=20)
    yield database
    await database.close()
