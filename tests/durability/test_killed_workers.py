"""Workers are killed at every stage: each file has the same result as in an undisturbed run."""

import asyncio
import logging
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from app.composition.services import Services
from app.contract.administration import NewTenant, Tenant
from app.contract.assets import Upload
from app.settings import IngestionSettings
from tests.durability.files import FileSource
from tests.durability.stock import assert_nothing_left_over, index_undisturbed, read_stock, wait_until_settled
from tests.durability.worker_process import PATIENCE, STAGES, WorkerProcess
from tests.fixtures.database.cluster import Connection, connected

log = logging.getLogger("tests.durability")

ANY_MOMENT = "any moment"
SETTLING_SECONDS = 180.0
FILES = 6
UNCOMMITTED = ("claimed", "parsing", "embedding", "before the swap")


class Round:
    """A tenant whose files are ingested, revised and deleted while its workers are killed, and an undisturbed one."""

    def __init__(
        self, services: Services, superuser: Connection, service_dsn: str, source: FileSource, chance: random.Random
    ) -> None:
        self._services = services
        self._superuser = superuser
        self._dsn = service_dsn
        self._source = source
        self._chance = chance
        self._kept: dict[str, Upload] = {}
        self.kills = 0

    async def run(self, name: str, files: int, moments: int) -> None:
        """Kill a worker at each stage and others at `moments` moments, with `files` new files before each."""
        tenant = await self._services.tenants.create(NewTenant(f"{name}-disturbed"), actor="test")
        revised = self._source.make()
        await self._keep(tenant, revised)
        while await self._services.worker.run_once():
            pass
        stages = [*STAGES, *[ANY_MOMENT] * moments]
        self._chance.shuffle(stages)
        for number, stage in enumerate(stages):
            for _ in range(files):
                await self._keep(tenant, self._source.make())
            if number == 3:
                await self._keep(tenant, self._source.revise(revised))
            if number == 5:
                await self._delete(tenant, self._chance.choice([*self._kept][1:-1]))
            await self._kill_worker_at(stage)
        with WorkerProcess(self._dsn), WorkerProcess(self._dsn):
            await wait_until_settled(self._superuser, tenant.id, SETTLING_SECONDS)
        await assert_nothing_left_over(self._superuser, tenant.id)
        undisturbed = await index_undisturbed(self._services, f"{name}-undisturbed", [*self._kept.values()])
        stock = await read_stock(self._superuser, tenant.id)
        assert stock == await read_stock(self._superuser, undisturbed.id)
        assert len(stock["assets"]) == len(self._kept)
        assert all("indexed" in asset for asset in stock["assets"])

    async def _kill_worker_at(self, stage: str) -> None:
        with WorkerProcess(self._dsn, stage) as worker:
            if stage == ANY_MOMENT:
                await asyncio.sleep(self._chance.uniform(0.0, 0.6))
            else:
                await worker.reach_stage()
            worker.kill()
        self.kills += 1

    async def _keep(self, tenant: Tenant, file: Upload) -> None:
        await self._services.assets.upload(tenant.id, file)
        assert file.external_id
        self._kept[file.external_id] = file

    async def _delete(self, tenant: Tenant, external_id: str) -> None:
        assets = await self._services.assets.list_assets(tenant.id, limit=200)
        (asset_id,) = (a.id for a in assets.items if a.external_id == external_id)
        await self._services.assets.delete(tenant.id, asset_id)
        del self._kept[external_id]


async def run_rounds(
    services: Services, superuser_dsn: str, service_dsn: str, *, rounds: int, files: int, seed: int, moments: int = 2
) -> int:
    source, chance = FileSource(seed), random.Random(seed)  # noqa: S311 (no secret)
    kills = 0
    async with connected(superuser_dsn) as superuser:
        for number in range(rounds):
            one = Round(services, superuser, service_dsn, source, chance)
            await one.run(f"round-{number}", files, moments)
            kills += one.kills
            log.info("round %d: %d workers killed so far, nothing lost", number, kills)
    return kills


async def test_workers_killed_at_each_stage_lose_and_duplicate_nothing(
    services: Services, superuser_dsn: str, service_dsn: str
) -> None:
    assert await run_rounds(services, superuser_dsn, service_dsn, rounds=1, files=1, seed=1, moments=0) == 6


@pytest.mark.slow
async def test_two_hundred_killed_workers_lose_and_duplicate_nothing(
    services: Services, superuser_dsn: str, service_dsn: str
) -> None:
    assert await run_rounds(services, superuser_dsn, service_dsn, rounds=25, files=2, seed=2) == 200


@pytest.mark.slow
@pytest.mark.parametrize("stage", UNCOMMITTED)
async def test_frozen_worker_writes_nothing_when_it_wakes(
    services: Services, tenant: Tenant, superuser_dsn: str, service_dsn: str, stage: str
) -> None:
    """The machine was suspended, or the process paused: another worker has done the work, and the lease is over."""
    source = FileSource(3)
    file, later = source.make(), source.make()
    await services.assets.upload(tenant.id, file)
    async with connected(superuser_dsn) as superuser:
        with WorkerProcess(service_dsn, stage, manner="freeze", concurrency=1) as frozen:
            assert await frozen.reach_stage() == stage
            with WorkerProcess(service_dsn):
                await wait_until_settled(superuser, tenant.id, SETTLING_SECONDS)
            ids = await superuser.fetch("select id from entries order by id")
            assert ids
            frozen.go_on()
            # The worker handles one job at a time: when this file is finished, so is the frozen job.
            await services.assets.upload(tenant.id, later)
            await wait_until_settled(superuser, tenant.id, SETTLING_SECONDS)
        kept = await superuser.fetch(
            "select e.id from entries e join assets a on a.id = e.asset_id where a.name = $1 order by e.id", file.name
        )
        assert kept == ids
        await assert_nothing_left_over(superuser, tenant.id)


@asynccontextmanager
async def command_worker(service_dsn: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`knowledge worker`, as an operator starts it."""
    settings = {"DATABASE_URL": service_dsn, "EMBEDDING_PROVIDER": "mock", "EMBEDDING_DIMENSIONS": "16"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from app.cli.main import run; run()", "worker"),
        env={"PATH": os.environ["PATH"], **settings},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.slow
async def test_killed_knowledge_worker_is_replaced_by_the_next(
    services: Services, tenant: Tenant, superuser_dsn: str, service_dsn: str
) -> None:
    source = FileSource(4)
    for _ in range(FILES):
        await services.assets.upload(tenant.id, source.make())
    async with connected(superuser_dsn) as superuser:
        async with command_worker(service_dsn) as process, asyncio.timeout(PATIENCE):
            while not await superuser.fetchval(  # noqa: ASYNC110
                "select count(*) from assets where status = 'processing'"
            ):
                await asyncio.sleep(0.005)
            process.kill()
            assert await process.wait() == -signal.SIGKILL
        held = await superuser.fetchval("select count(*) from jobs where state = 'running'")
        # The lease of one minute is over.
        await superuser.execute("update jobs set lease_until = now() where state = 'running'")
        async with command_worker(service_dsn) as process:
            await wait_until_settled(superuser, tenant.id, SETTLING_SECONDS)
            process.terminate()
            assert await process.wait() == 0
        assert 1 <= held <= IngestionSettings().files_at_once
        await assert_nothing_left_over(superuser, tenant.id)
        stats = await services.administration.stats(tenant.id)
        assert stats.assets_by_status == {"indexed": FILES}
