"""Postgres is killed during uploads: each acknowledged file is indexed, once."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from app.composition.services import Services, build_services
from app.contract.administration import NewTenant, Tenant
from app.contract.assets import Upload
from app.db.database import Database
from app.embeddings.providers.mock import MockProvider
from app.errors import DatabaseUnavailable
from tests.durability.files import FileSource
from tests.durability.stock import assert_nothing_left_over, index_undisturbed, read_stock, wait_until_settled
from tests.durability.worker_process import WorkerProcess
from tests.fixtures.database.cluster import MODEL, connected
from tests.fixtures.database.killed_server import SETTLING_SECONDS, Server

log = logging.getLogger("tests.durability")

UPLOADERS = 3


class Uploader:
    """Uploads one file after the other, and repeats each until it is acknowledged."""

    def __init__(self, services: Services, tenant: Tenant, source: FileSource) -> None:
        self._services = services
        self._tenant = tenant
        self._source = source
        self.acknowledged: list[Upload] = []
        self.refusals = 0

    async def run(self) -> None:
        while True:
            file = self._source.make()
            while True:
                try:
                    await self._services.assets.upload(self._tenant.id, file)
                except DatabaseUnavailable:
                    self.refusals += 1
                    await asyncio.sleep(0.05)
                else:
                    break
            self.acknowledged.append(file)
            await asyncio.sleep(0.3)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path / "data")
    await server.start()
    yield server
    await server.stop()


async def kill_during_uploads(server: Server, kills: int, seed: int) -> int:
    """Returns how many uploads were acknowledged."""
    chance = random.Random(seed)  # noqa: S311 (no secret)
    dsn = server.database.service_dsn
    database = Database(dsn, pool_size=5)
    services = await build_services(database, MockProvider(MODEL))
    tenant = await services.tenants.create(NewTenant("disturbed"), actor="test")
    source = FileSource(seed)
    uploaders = [Uploader(services, tenant, source) for _ in range(UPLOADERS)]
    running = [asyncio.create_task(uploader.run()) for uploader in uploaders]
    with (
        WorkerProcess(dsn, "started", manner="report") as first,
        WorkerProcess(dsn, "started", manner="report") as second,
    ):
        # A start without a database fails, as that of the service does.
        for worker in (first, second):
            await worker.reach_stage()
        while server.kills < kills:
            await asyncio.sleep(chance.uniform(0.1, 0.8))
            if server.kills % 2:
                await server.kill_postmaster()
            else:
                await server.kill_backend(chance)
            await server.wait_until_back()
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        async with connected(server.database.superuser_dsn) as superuser:
            await wait_until_settled(superuser, tenant.id, SETTLING_SECONDS)
            await assert_nothing_left_over(superuser, tenant.id)
            first.kill()
            second.kill()
            files = [file for uploader in uploaders for file in uploader.acknowledged]
            log.info(
                "%d kills, %d uploads acknowledged, %d refused",
                server.kills, len(files), sum(uploader.refusals for uploader in uploaders),
            )  # fmt: skip
            await assert_same_as_undisturbed(services, superuser, tenant, files)
    await services.close()
    await database.close()
    return len(files)


async def assert_same_as_undisturbed(
    services: Services, superuser: asyncpg.Connection[asyncpg.Record], tenant: Tenant, files: list[Upload]
) -> None:
    acknowledged = {file.name for file in files}
    stock = await read_stock(superuser, tenant.id)
    there = [asset[0] for asset in stock["assets"]]
    assert acknowledged <= set(there)
    assert len(there) == len(set(there))
    # The last file of each uploader may have been kept although its caller received no response.
    assert len(there) <= len(acknowledged) + UPLOADERS
    undisturbed = await index_undisturbed(services, "undisturbed", files)
    expected = await read_stock(superuser, undisturbed.id)
    for kind, rows in expected.items():
        assert [row for row in stock[kind] if row[0] in acknowledged] == rows
    assert all("indexed" in asset for asset in stock["assets"])


@pytest.mark.slow
async def test_uploads_survive_a_killed_connection_and_a_killed_server(server: Server) -> None:
    assert await kill_during_uploads(server, kills=1, seed=11) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 17))
async def test_uploads_survive_eight_kills_of_postgres(server: Server, seed: int) -> None:
    assert await kill_during_uploads(server, kills=8, seed=seed) > 8
