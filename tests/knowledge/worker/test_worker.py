"""Workers with failing files, parsers or databases."""

from __future__ import annotations

import asyncio
from typing import Any

from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.documents.parsed import ParseLimits
from app.embeddings.provider import InputRefused
from app.errors import DatabaseUnavailable
from app.knowledge.ingestion.pipeline import Ingestion
from app.knowledge.queue import Lease
from app.knowledge.worker import MAX_LOST
from tests.fixtures.workers import PATIENCE, Bench, find_parser
from tests.knowledge.conftest import RunJobs


async def test_file_that_kills_its_parser_fails_after_three_attempts_with_the_reason(
    bench: Bench, run_jobs: RunJobs
) -> None:
    bench.limits = ParseLimits(seconds=0.01)
    asset_id = await bench.upload()
    worker = bench.make_worker()
    for attempt in (1, 2, 3):
        assert (await bench.get(asset_id)).error is None
        await bench.change("update jobs set run_at = now()")
        assert await worker.run_once()
        assert [job["attempts"] for job in await bench.jobs()] == [attempt] * (attempt < 3)
    asset = await bench.get(asset_id)
    assert (asset.status, asset.error) == ("failed", "the file takes more than 0.01 s to read")
    retried = await bench.services.assets.retry(bench.tenant.id, asset_id)
    assert (retried.status, retried.error, retried.progress) == ("pending", None, 0)
    assert await run_jobs() == 1
    assert (await bench.get(asset_id)).status == "indexed"


async def test_file_whose_parser_is_killed_once_is_parsed_at_the_second_attempt(bench: Bench) -> None:
    asset_id = await bench.upload()
    worker = bench.make_worker()
    working = asyncio.create_task(worker.run_once())
    (await find_parser()).kill()
    assert await working
    assert [(job["state"], job["attempts"]) for job in await bench.jobs()] == [("queued", 1)]
    await bench.change("update jobs set run_at = now()")
    assert await worker.run_once()
    assert (await bench.get(asset_id)).status == "indexed"


async def test_file_that_kills_several_workers_fails_and_can_be_retried(bench: Bench, run_jobs: RunJobs) -> None:
    asset_id = await bench.upload()
    await bench.change("update jobs set lost = $1", MAX_LOST)
    assert await run_jobs() == 1
    asset = await bench.get(asset_id)
    assert asset.status == "failed"
    assert asset.error == f"the service was stopped {MAX_LOST} times while it processed the file"
    await bench.services.assets.retry(bench.tenant.id, asset_id)
    await run_jobs()
    assert (await bench.get(asset_id)).status == "indexed"


async def test_failure_of_an_old_version_does_not_fail_the_new(bench: Bench, run_jobs: RunJobs) -> None:
    asset_id = await bench.upload(Upload("a.md", b"Old.", external_id="a"))
    job_lease: list[Lease] = []

    class Late(Ingestion):
        async def ingest(self, job: Any, lease: Lease) -> None:
            lease.follow(asset_id, 1)
            job_lease.append(lease)
            await bench.upload(Upload("a.md", b"New.", external_id="a"))
            raise InputRefused("mock", "told to")

    late = Late(bench.services.database, {1: bench.provider}, bench.services.tenants)
    assert await bench.make_worker(ingestion=late).run_once()
    assert job_lease
    asset = await bench.get(asset_id)
    assert (asset.status, asset.error, asset.generation) == ("pending", None, 2)
    await run_jobs()
    assert (await bench.get(asset_id)).status == "indexed"


async def test_lost_database_connections_do_not_count_as_attempts(bench: Bench) -> None:
    asset_id = await bench.upload()
    go_on = bench.provider.hold_next_call()
    interrupted = asyncio.Event()

    class Interrupted(Ingestion):
        async def ingest(self, job: Any, lease: Lease) -> None:
            try:
                await super().ingest(job, lease)
            except DatabaseUnavailable:
                interrupted.set()
                raise

    parts = bench.services.database, {1: bench.provider}, bench.services.tenants
    worker = bench.make_worker(ingestion=Interrupted(*parts))
    working = asyncio.create_task(worker.run_once())
    await bench.provider.entered.wait()
    limit = "do $$ begin execute format('alter database %I connection limit {}', current_database()); end $$"
    await bench.change(limit.format(0))
    await bench.change(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and usename = 'kb_service'"
    )
    go_on.set()
    async with asyncio.timeout(PATIENCE):
        await interrupted.wait()
    await bench.change(limit.format(-1))
    assert await working
    assert [(j["state"], j["attempts"], j["lost"]) for j in await bench.jobs()] == [("queued", 0, 0)]
    await bench.change("update jobs set run_at = now()")
    assert await worker.run_once()
    assert (await bench.get(asset_id)).status == "indexed"


async def test_long_work_on_entries_yields_to_other_work(bench: Bench, run_jobs: RunJobs) -> None:
    bench.provider.down = True
    drafts = [EntryDraft(content=f"Boat number {n} lies in the harbour.") for n in range(130)]
    await bench.services.entries.create_many(bench.tenant.id, drafts)
    bench.provider.down = False
    await bench.change("update jobs set run_at = now()")
    worker = bench.make_worker(slice_seconds=0.0)
    pending = [130]
    while pending[-1]:
        assert await worker.run_once()
        pending.append((await bench.services.administration.stats(bench.tenant.id)).pending_embeddings)
    assert pending == [130, 66, 2, 0]
    await run_jobs()
    assert await bench.jobs() == []
