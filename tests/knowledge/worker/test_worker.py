"""The worker and its providers."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.documents.parsed import ParseLimits
from app.embeddings.provider import InputRefused, Vector
from app.errors import DatabaseUnavailable, EmbeddingUnavailable
from app.knowledge.entries.embedding import EntryEmbedder
from app.knowledge.ingestion.pipeline import BATCH, Ingestion
from app.knowledge.queue import Lease
from app.knowledge.worker import MAX_LOST, MAX_POSTPONED
from tests.fixtures.database.cluster import MODEL, connected, fetchval
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.workers import PATIENCE, Bench, find_parser, run_due
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
    assert (asset.status, asset.error) == ("failed", "the file was not read within 0.05 s: the machine is too busy")
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


async def test_unavailable_provider_gets_requests_of_one_file_only(
    bench: Bench, other_tenant: Tenant, run_jobs: RunJobs
) -> None:
    first = await bench.upload()
    for n in range(3):
        await bench.services.assets.upload(other_tenant.id, Upload("b.md", f"Text {n}.".encode()))
    counting = CountingProvider(MODEL)
    counting.error = EmbeddingUnavailable("mock", "rate limit reached (HTTP 429)", retry_after=120.0)
    worker = bench.make_worker(ingestion=bench.make_ingestion(counting))
    await run_due(worker)
    assert counting.asked == 1, "nothing else is tried without success"
    assert {asset.status for asset in (await bench.services.assets.list_assets(other_tenant.id)).items} == {"indexed"}
    assert [(j["attempts"], j["postponed"]) for j in await bench.jobs() if j["kind"] == "embed_entries"] == [
        (0, 0),
        (0, 0),
    ]
    pause = await fetchval(bench.superuser_dsn, "select paused_until - clock_timestamp() from embedding_models")
    assert timedelta(seconds=60) < pause < timedelta(seconds=121)
    await run_jobs()
    assert sorted(bench.provider.documents) == [
        "Harbour\n\n# Harbour\n\nBoats lie here.",
        "Text 0.",
        "Text 1.",
        "Text 2.",
    ]
    assert (await bench.get(first)).status == "indexed"
    assert await bench.jobs() == []


async def test_work_of_an_unavailable_provider_is_due_when_its_pause_is_over(
    bench: Bench, other_tenant: Tenant
) -> None:
    bench.provider.down = True
    for tenant in (bench.tenant, other_tenant):
        await bench.services.entries.create(tenant.id, EntryDraft(content="The lighthouse is red."))
    worker = bench.make_worker()
    for _ in range(4):
        await bench.change("update jobs set run_at = now()")
        await bench.change("update embedding_models set paused_until = null")
        assert await worker.run_once(["embed_entries"])
        assert not await worker.run_once(["embed_entries"]), "the other tenant's waits for the same provider"
    late = await fetchval(
        bench.superuser_dsn,
        "select count(*) from jobs, embedding_models"
        " where kind = 'embed_entries' and run_at > paused_until + interval '1 second'",
    )
    assert late == 0, "jobs wait for the pause only, however often the provider was down"
    assert {job["postponed"] for job in await bench.jobs()} == {0}


async def test_vectors_created_before_the_provider_failed_are_kept(bench: Bench, run_jobs: RunJobs) -> None:
    sections = [f"# Berth {n}\n\n" + f"Berth {n} is dredged in a year of its own. " * 20 for n in range(BATCH + 6)]
    leaving = FailingLaterProvider(MODEL)
    asset_id = await bench.upload(Upload("a.md", "\n\n".join(sections).encode()))
    assert await bench.make_worker(ingestion=bench.make_ingestion(leaving)).run_once()
    asset = await bench.get(asset_id)
    pending = (await bench.services.administration.stats(bench.tenant.id)).pending_embeddings
    assert (asset.status, len(leaving.documents), pending) == ("indexed", BATCH, asset.chunks - BATCH)
    await run_jobs()
    assert len(bench.provider.documents) == asset.chunks - BATCH
    assert set(bench.provider.documents).isdisjoint(leaving.documents)
    assert await bench.jobs() == []


async def test_new_version_ingested_without_the_provider_keeps_the_vectors_of_unchanged_texts(
    bench: Bench, run_jobs: RunJobs
) -> None:
    old = "# Tides\n\n" + "The tide falls twice a day. " * 40
    await bench.upload(Upload("a.md", old.encode(), external_id="a"))
    await run_jobs()
    made = list(bench.provider.documents)
    bench.provider.down = True
    new = old + "\n\n# Moorings\n\n" + "Every mooring is inspected. " * 40
    asset_id = await bench.upload(Upload("a.md", new.encode(), external_id="a"))
    await run_jobs()
    asset = await bench.get(asset_id)
    pending = (await bench.services.administration.stats(bench.tenant.id)).pending_embeddings
    assert (asset.generation, asset.status) == (2, "indexed")
    assert 0 < pending < asset.chunks
    bench.provider.down = False
    await run_jobs()
    assert bench.provider.documents[: len(made)] == made
    assert len(bench.provider.documents) == len(set(bench.provider.documents)) == len(made) + pending


async def test_retry_after_of_a_day_is_shortened(bench: Bench) -> None:
    await bench.upload()
    bench.provider.error = EmbeddingUnavailable("mock", "quota", retry_after=86_400.0)
    assert await bench.make_worker().run_once()
    assert await fetchval(bench.superuser_dsn, "select paused_until - clock_timestamp() from embedding_models") < (
        timedelta(minutes=16)
    )


async def test_provider_missing_in_one_process_pauses_nothing(bench: Bench, run_jobs: RunJobs) -> None:
    asset_id = await bench.upload()
    without = Ingestion(bench.services.database, {}, bench.services.tenants)
    assert await bench.make_worker(ingestion=without).run_once()
    assert await fetchval(bench.superuser_dsn, "select paused_until from embedding_models") is None
    await run_jobs()
    assert (await bench.get(asset_id)).status == "indexed"


async def test_file_whose_text_the_provider_refuses_fails_at_once_and_can_be_retried(
    bench: Bench, run_jobs: RunJobs
) -> None:
    asset_id = await bench.upload()
    bench.provider.error = InputRefused("mock", "input refused (HTTP 400)")
    assert await run_jobs() == 1
    asset = await bench.get(asset_id)
    assert (asset.status, asset.error) == (
        "failed",
        "the embedding provider refuses the text: input refused (HTTP 400)",
    )
    bench.provider.error = None
    await bench.services.assets.retry(bench.tenant.id, asset_id)
    await run_jobs()
    assert (await bench.get(asset_id)).status == "indexed"


class CountingProvider(FailingProvider):
    """Counts its requests, answered or not."""

    asked = 0

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += 1
        return await super().embed_documents(texts)


class FailingLaterProvider(FailingProvider):
    """Answers one request, and is down from then on."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        vectors = await super().embed_documents(texts)
        self.down = True
        return vectors


class PartlyFailingProvider(CountingProvider):
    """Answers every request except those with certain texts, as a faulty provider does."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        vectors = await super().embed_documents(texts)
        if any("Boats" in text for text in texts):
            raise EmbeddingUnavailable("mock", "server error (HTTP 500)", attempts=3)
        return vectors


async def test_text_that_the_provider_fails_on_blocks_no_other_and_is_dropped_after_hours(bench: Bench) -> None:
    stumbling = PartlyFailingProvider(MODEL)
    providers = {1: stumbling}
    database, tenants = bench.services.database, bench.services.tenants
    worker = bench.make_worker(
        ingestion=Ingestion(database, providers, tenants), embedder=EntryEmbedder(database, providers, tenants)
    )
    asset_id = await bench.upload()
    other_id = await bench.upload(Upload("b.md", b"Every mooring is inspected."))

    async def pending_after_another_turn() -> int:
        await bench.change("update jobs set run_at = now()")
        await bench.change("update embedding_models set paused_until = null")
        await run_due(worker)
        return int((await bench.services.administration.stats(bench.tenant.id)).pending_embeddings)

    assert await pending_after_another_turn() == 2, "the first failure may be an outage"
    for _ in range(3):
        assert await pending_after_another_turn() == 1
    assert {(await bench.get(each)).status for each in (asset_id, other_id)} == {"indexed"}
    assert [(job["kind"], job["postponed"]) for job in await bench.jobs()] == [("embed_entries", 3)]
    async with connected(bench.superuser_dsn) as superuser:
        assert await superuser.fetchval("select paused_until from embedding_models") is None
        assert await superuser.fetchval("select attempts from pending_embeddings") == 0
    await bench.change("update jobs set postponed = $1", MAX_POSTPONED)
    stumbling.down = True
    assert await pending_after_another_turn() == 1
    assert await fetchval(bench.superuser_dsn, "select attempts from pending_embeddings") == 0, "that was an outage"
    stumbling.down = False
    for _ in range(5):
        assert await pending_after_another_turn() == 1
    assert await pending_after_another_turn() == 1
    assert await bench.jobs() == [], "after five more tries the provider is not asked again"
    asked = stumbling.asked
    await pending_after_another_turn()
    assert stumbling.asked == asked
