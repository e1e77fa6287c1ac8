"""Doing queued work, in the service's own process or in one of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from datetime import timedelta

from app.db import jobs as queue
from app.db.jobs import Job
from app.db.session import Database
from app.documents.parsing import ParserDied
from app.embeddings.failures import InputRefused
from app.errors import (
    DatabaseUnavailable,
    EmbeddingUnavailable,
    InvalidInput,
    KnowledgeError,
    RateLimited,
    TenantNotFound,
    UnreadableDocument,
    UnsupportedMediaType,
)
from app.knowledge.deliveries import DeliveryService
from app.knowledge.embedding import EntryEmbedder, NoProvider
from app.knowledge.ingestion import Ingestion
from app.knowledge.jobs import JobQueue
from app.knowledge.lease import ClaimLost, Lease
from app.knowledge.matching import ChangeMatcher
from app.knowledge.quotas import EmbeddingQuotaUsed
from app.knowledge.reembedding_jobs import ReembeddingJobs
from app.knowledge.upkeep import Upkeep
from app.telemetry.metrics import JOB_SECONDS, JOBS
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.worker")

KINDS = ("ingest_asset", "embed_entries", "refresh_statistics", "index_vectors", "reembed", "match_changes")
OUTWARD_KINDS = ("deliver_webhooks",)
"""Work that waits for somebody else's server, and therefore has a turn of its own beside the others."""
LEASE = timedelta(seconds=60)
POLL_SECONDS = 1.0
LISTEN_AGAIN_SECONDS = 10.0
SWEEP_SECONDS = 300.0

MAX_ATTEMPTS = 3
"""Tries of a file that end in an error or in the death of its parser."""
MAX_LOST = 10
"""Workers that may die with a file in hand. More than tries, since a worker dies of much else: an update of the
service, another file in the same process."""
MAX_POSTPONED = 40
"""Tries, over some three hours, after which a provider that answers others is no longer taken to be away."""

FILES_COUNTED_AFTER = 10.0
SLICE_SECONDS = 20.0
PAUSE_SECONDS = 15.0
LONG_PAUSE_SECONDS = 60.0
"""For a refusal that waiting does not mend, such as a rejected key."""
LONGEST_PAUSE_SECONDS = 900.0
"""A provider that asks for more is asked again nevertheless."""

UNEXPECTED = "the file could not be processed; the service's log says why"


class Worker:
    """Claims jobs of any tenant and does them, several at a time.

    A job is held by a lease that is renewed while the work goes on; when a worker dies, the lease runs out and
    another takes the job over. A file that is refused for a clear reason fails at once, one that breaks its reader
    or the service after three tries. A provider or a database that is away uses up no try; the provider's jobs are
    not handed out for a while.
    """

    def __init__(
        self,
        database: Database,
        jobs: JobQueue,
        ingestion: Ingestion,
        embedder: EntryEmbedder,
        upkeep: Upkeep,
        *,
        reembedding: ReembeddingJobs | None = None,
        matcher: ChangeMatcher | None = None,
        deliveries: DeliveryService | None = None,
        concurrency: int = 2,
        lease: timedelta = LEASE,
        slice_seconds: float = SLICE_SECONDS,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """`slice_seconds` is how long work that can be parted goes on before other tenants have their turn.

        Work is looked for every `poll_seconds`, and as soon as a process that queues it says so.
        """
        self._database = database
        self._jobs = jobs
        self._ingestion = ingestion
        self._embedder = embedder
        self._upkeep = upkeep
        self._reembedding = reembedding
        self._matcher = matcher
        self._deliveries = deliveries
        parts = {"reembed": reembedding, "match_changes": matcher}
        self._kinds = tuple(kind for kind in KINDS if kind not in parts or parts[kind] is not None)
        self._outward_kinds = OUTWARD_KINDS if deliveries is not None else ()
        self._concurrency = concurrency
        self._lease = lease
        self._slice = slice_seconds
        self._poll = poll_seconds

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work(self._kinds))
            if self._outward_kinds:
                group.create_task(self._work(self._outward_kinds))
            group.create_task(self._sweep())
            group.create_task(self._listen())

    async def run_once(self, kinds: Sequence[str] | None = None) -> bool:
        """Do one due job, of `kinds` or of any; False when there is none. Raises DatabaseUnavailable."""
        async with self._database.platform_session() as session:
            job = await queue.claim_job(session, kinds or self._kinds + self._outward_kinds, self._lease)
        if job is None:
            return False
        started = time.perf_counter()
        with span(
            f"job {job.kind}",
            "consumer",
            job_id=str(job.id),
            tenant_id=str(job.tenant_id),
            attempt=job.attempts,
        ) as seen:
            outcome = await self._do(job)
            ended = _ending(outcome)
            seen.set(outcome=ended)
            if ended == "failed":
                seen.fail(ended)
            seconds = time.perf_counter() - started
            JOBS.labels(job.kind, ended).inc()
            JOB_SECONDS.labels(job.kind).observe(seconds)
            log.info(
                "job %s",
                outcome,
                extra={
                    "kind": job.kind,
                    "job_id": str(job.id),
                    "tenant_id": str(job.tenant_id),
                    "attempt": job.attempts,
                    "milliseconds": round(1000 * seconds),
                },
            )
        return True

    async def _work(self, kinds: Sequence[str]) -> None:
        while True:
            busy = False
            self._jobs.awake.clear()
            try:
                busy = await self.run_once(kinds)
            except KnowledgeError as error:
                log.warning("worker waits: %s", error)
                await asyncio.sleep(POLL_SECONDS)
            except Exception:
                log.exception("a job failed in an unexpected way")
                await asyncio.sleep(POLL_SECONDS)
            if not busy:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._poll):
                        await self._jobs.awake.wait()

    async def _listen(self) -> None:
        while True:
            try:
                await queue.listen_for_jobs(self._database, self._jobs.wake)
            except Exception as error:
                log.debug("no hints of new work: %s", type(error).__name__)
            await asyncio.sleep(LISTEN_AGAIN_SECONDS)

    async def _sweep(self) -> None:
        while True:
            try:
                await self._upkeep.sweep()
            except Exception:
                log.exception("the sweep failed; it is tried again later")
            await asyncio.sleep(SWEEP_SECONDS)

    async def _do(self, job: Job) -> str:
        lease = Lease(self._database, job, self._lease)
        try:
            async with lease.kept():
                return await self._perform(job, lease)
        except asyncio.CancelledError:
            # Shutting down: another worker need not wait for the lease to run out.
            with contextlib.suppress(KnowledgeError):
                await asyncio.shield(self._release(job, 0.0, patience=0.0))
            raise
        except (ClaimLost, TenantNotFound):
            # A newer version has a job of its own; where another worker took this one over, nothing is removed.
            async with self._database.tenant_session(job.tenant_id) as session:
                await queue.complete_job(session, job)
            return "given up: overtaken"
        except ParserDied as error:
            return await self._try_again(job, lease, str(error))
        except (UnreadableDocument, UnsupportedMediaType, InvalidInput, RateLimited) as error:
            return await self._fail(job, lease, str(error))
        except InputRefused as error:
            return await self._fail(job, lease, f"the embedding provider refuses the text: {error.reason}")
        except EmbeddingQuotaUsed as error:
            # The provider is well, and serves others: it is not paused.
            await self._release(job, error.retry_after or LONG_PAUSE_SECONDS)
            return "put back: the tenant's embedding tokens of the day are used up"
        except EmbeddingUnavailable as error:
            return await self._postpone(job, lease, error)
        except DatabaseUnavailable as error:
            if queue.is_statements_fault(error):
                return await self._try_again(job, lease, "the database gave up on storing the file")
            await self._release(job, POLL_SECONDS)
            return "put back: database unavailable"
        except Exception as error:
            log.exception("a job failed", extra={"kind": job.kind, "job_id": str(job.id)})
            outcome = await self._try_again(job, lease, UNEXPECTED)
            return f"{outcome} after {type(error).__name__}"

    async def _perform(self, job: Job, lease: Lease) -> str:
        done, pause = True, 0.0
        match job.kind:
            case "ingest_asset":
                if job.lost >= MAX_LOST:
                    return await self._fail(
                        job, lease, f"the service was stopped {job.lost} times while it processed the file"
                    )
                await self._ingestion.ingest(job, lease)
                # Files come in numbers: their words are counted once for all of some seconds.
                await self._upkeep.check(job.tenant_id, delay=FILES_COUNTED_AFTER)
                return "done"
            case "embed_entries":
                done = await self._embedder.embed_all(job.tenant_id, seconds=self._slice)
                if done:
                    await self._upkeep.check(job.tenant_id)
            case "refresh_statistics":
                await self._upkeep.refresh_statistics(job.tenant_id)
            case "reembed":
                assert self._reembedding is not None
                further = await self._reembedding.advance(job.tenant_id)
                done, pause = further is None, further or 0.0
            case "match_changes":
                assert self._matcher is not None
                further = await self._matcher.match(job.tenant_id)
                done, pause = further is None, further or 0.0
            case "deliver_webhooks":
                assert self._deliveries is not None
                further = await self._deliveries.deliver(job.tenant_id)
                done, pause = further is None, further or 0.0
            case _:
                done = await self._upkeep.index_vectors(job.tenant_id, seconds=self._slice)
        await lease.settle()
        if not done:
            await self._release(job, pause)
            return "put back: more to do"
        async with self._database.tenant_session(job.tenant_id) as session:
            await queue.complete_job(session, job)
        return "done"

    async def _fail(self, job: Job, lease: Lease, reason: str) -> str:
        if job.kind != "ingest_asset":
            return await self._try_again(job, lease, reason)
        await lease.settle()
        await self._ingestion.fail(job, reason, lease.generation)
        return "failed"

    async def _try_again(self, job: Job, lease: Lease, reason: str) -> str:
        if job.kind == "ingest_asset" and job.attempts >= MAX_ATTEMPTS:
            return await self._fail(job, lease, reason)
        await self._release(job, 2.0 ** min(job.attempts, 8), counts=True)
        return "put back"

    async def _postpone(self, job: Job, lease: Lease, error: EmbeddingUnavailable) -> str:
        if isinstance(error, NoProvider):
            await self._release(job, PAUSE_SECONDS, postpones=True)
            return "put back: no provider for the tenant's model"
        overdue = job.kind == "ingest_asset" and job.postponed >= MAX_POSTPONED
        if overdue and await self._ingestion.provider_answers(job):
            return await self._fail(job, lease, f"the embedding provider fails at it: {error.reason}")
        pause = error.retry_after or (LONG_PAUSE_SECONDS if error.permanent else PAUSE_SECONDS)
        pause = min(pause, LONGEST_PAUSE_SECONDS)
        log.warning(
            "the provider is away; its jobs wait",
            extra={"provider": error.provider, "seconds": round(pause, 1)},
        )
        await self._release(job, pause, postpones=True, pauses=job.kind in queue.PROVIDER_KINDS)
        return "put back: provider unavailable"

    async def _release(
        self,
        job: Job,
        delay: float,
        *,
        counts: bool = False,
        postpones: bool = False,
        pauses: bool = False,
        patience: float | None = None,
    ) -> None:
        """Give a job back, as soon as the database takes it.

        Raises DatabaseUnavailable after `patience` seconds: the lease, after which others find the job anyway.
        """
        wait = timedelta(seconds=delay)
        end = time.monotonic() + (self._lease.total_seconds() if patience is None else patience)
        while True:
            try:
                async with self._database.tenant_session(job.tenant_id) as session:
                    if pauses:
                        await queue.pause_provider(session, wait)
                    await queue.release_job(session, job, wait, counts=counts, postpones=postpones)
                return
            except DatabaseUnavailable:
                if time.monotonic() >= end:
                    raise
                await asyncio.sleep(POLL_SECONDS / 2)


def _ending(outcome: str) -> str:
    """`done`, `failed`, `put_back` or `given_up`: what an outcome begins with; the rest says why, for people."""
    return outcome.partition(":")[0].partition(" after ")[0].replace(" ", "_")
