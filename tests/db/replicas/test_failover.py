"""The primary is killed under load and its replica promoted: the service goes on and loses no acknowledged write."""

import asyncio
import contextlib
import time
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from app.db.database import Database
from app.db.statements import parse_statement
from app.errors import DatabaseUnavailable
from tests.fixtures.database.cluster import connected
from tests.fixtures.database.standby import ReplicatedDatabase, replicated_database

TENANTS = UUID(int=0xA1), UUID(int=0xA2)
WRITERS = 4
WRITE = parse_statement(
    "test.write",
    """insert into entries (tenant_id, id, entry_type, content, language, content_hash, text_hash)
       values (:tenant_id, :id, 'fact', :text, 'english', sha256(convert_to(:text, 'utf8')), sha256('text'))""",
)
ENTRIES = parse_statement("test.entries", "select tenant_id, id from entries")


class Load:
    """Writers of two tenants, the writes acknowledged to them, and their refusals."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.acknowledged: dict[UUID, set[UUID]] = {tenant: set() for tenant in TENANTS}
        self.refused = 0
        self.last = 0.0
        """Time of the last acknowledgement, on the monotonic clock."""
        self.longest = 0.0
        """Seconds of the longest call."""

    @property
    def written(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    async def write_until(self, enough: int) -> None:
        """Write until so many writes of all writers are acknowledged."""
        number = 0
        while self.written < enough:
            tenant, entry_id, began = TENANTS[number % 2], uuid4(), time.monotonic()
            number += 1
            try:
                async with self._database.tenant_session(tenant) as session:
                    await session.execute(WRITE, id=entry_id, text=str(entry_id))
            except DatabaseUnavailable:
                self.refused += 1
                await asyncio.sleep(0.02)
            else:
                self.last = time.monotonic()
                self.acknowledged[tenant].add(entry_id)
            self.longest = max(self.longest, time.monotonic() - began)


async def create_tenants(servers: ReplicatedDatabase) -> None:
    async with connected(servers.primary.superuser_dsn) as superuser:
        model = await superuser.fetchval("select id from embedding_models")
        for tenant in TENANTS:
            await superuser.execute(
                "insert into tenants (id, slug, name, model_id) values ($1, $2, $2, $3)",
                tenant,
                f"tenant-{tenant.int}",
                model,
            )


@pytest.mark.parametrize("writes", [150, pytest.param(5_000, marks=pytest.mark.slow)])
async def test_a_killed_primary_loses_no_acknowledged_write(tmp_path: Path, writes: int) -> None:
    async with replicated_database(tmp_path) as servers:
        await servers.replicate_synchronously()
        await create_tenants(servers)
        database = Database(servers.service_dsn, pool_size=WRITERS)
        load = Load(database)
        try:
            async with asyncio.timeout(240):
                writers = [asyncio.create_task(load.write_until(writes)) for _ in range(WRITERS)]
                while load.written < writes / 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                servers.kill_primary()
                killed = time.monotonic()
                await servers.promote()
                promoted, before = time.monotonic(), load.written
                while load.written == before:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                back = time.monotonic()
                await asyncio.gather(*writers)
            for tenant in TENANTS:
                async with database.tenant_session(tenant) as session:
                    found = {(row["tenant_id"], row["id"]) for row in await session.fetch(ENTRIES)}
                assert {owner for owner, _ in found} == {tenant}
                assert {(tenant, entry_id) for entry_id in load.acknowledged[tenant]} <= found
        finally:
            with contextlib.suppress(DatabaseUnavailable):
                await database.close()
    print(  # noqa: T201
        f"{load.written} acknowledged, {load.refused} refused; promoted after {promoted - killed:.2f} s, "
        f"written again {back - promoted:.2f} s later; longest call {load.longest:.2f} s"
    )
