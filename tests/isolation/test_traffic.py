"""Few connections shared by many tenants, with and without PgBouncer, with cancelled calls: no tenant sees another's
rows.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from app.db.database import Database
from tests.fixtures.database.bouncer import bounced
from tests.fixtures.database.cluster import connected
from tests.fixtures.database.seeded import Seeded
from tests.isolation.traffic import leftover, send_traffic

POOL = 5


@asynccontextmanager
async def opened(seeded: Seeded, way: str) -> AsyncIterator[Database]:
    """The database with a pool of five, directly or through a PgBouncer with three connections."""
    if way == "direct":
        database = Database(seeded.database.service_dsn, pool_size=POOL, pool_timeout=30)
        yield database
        await database.close()
        return
    prepared = way == "pgbouncer with prepared statements"
    async with bounced(seeded.database, connections=3, prepared=prepared) as dsn:
        database = Database(dsn, pool_size=POOL, pool_timeout=30, prepared_statements=prepared)
        yield database
        await database.close()


@pytest.mark.parametrize("transactions", [250, pytest.param(5_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", ["direct", "pgbouncer", "pgbouncer with prepared statements"])
async def test_mixed_tenants_never_see_each_other(seeded: Seeded, way: str, transactions: int) -> None:
    entries: dict[UUID, set[UUID]] = {seeded.first: set(), seeded.second: set()}
    async with connected(seeded.database.superuser_dsn) as superuser:
        for row in await superuser.fetch("select tenant_id, id from entries"):
            entries[row["tenant_id"]].add(row["id"])
    async with opened(seeded, way) as database:
        tally = await send_traffic(database, entries, transactions, seed=transactions)
        assert tally.foreign == []
        assert tally.finished + tally.cancelled == transactions
        assert tally.cancelled > transactions / 25
        assert tally.rows > transactions
        for _ in range(2 * POOL):
            assert not await leftover(database)
    print(f"{way}: {tally.finished} finished, {tally.cancelled} cancelled, {tally.rows} rows")  # noqa: T201
