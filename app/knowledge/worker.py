"""The worker: runs queued jobs, each for one turn, in the service's process or in a process of its own."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal, get_args
from uuid import UUID

from app.db.database import Database
from app.db.principals import acting_for_service
from app.db.queries import jobs as queue
from app.db.queries.jobs import Job, JobKind
from app.documents.process.parsing import ParserDied
from app.embeddings.provider import InputRefused
from app.errors import (
    DatabaseUnavailable,
    EmbeddingQuotaUsed,
    EmbeddingUnavailable,
    InvalidInput,
    KnowledgeError,
    RateLimited,
    TenantNotFound,
    UnreadableDocument,
    UnsupportedMediaType,
)
from app.knowledge.announcements import Announcements
from app.knowledge.entries.embedding import EntryEmbedder, TextsFail
from app.knowledge.erasure import ErasureService
from app.knowledge.ingestion.pipeline import Ingestion
from app.knowledge.queue import LONG_PAUSE_SECONDS, PAUSE_SECONDS, ClaimLost, JobQueue, Lease, choose_pause
from app.knowledge.reembedding.job import ReembeddingJob
from app.knowledge.subscriptions.deliveries import DeliveryService
from app.knowledge.subscriptions.matching import ChangeMatcher
from app.knowledge.tenants.directory import NoProvider
from app.knowledge.upkeep import SWEEP_SECONDS, Sweep, Upkeep
from app.telemetry.metrics import JOB_SECONDS, JOBS
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.worker")

OUTWARD_KINDS: tuple[JobKind, ...] = ("deliver_webhooks",)
"""Jobs that wait for servers of other parties; a task of their own runs them, so that they do not delay others."""
KINDS: tuple[JobKind, ...] = tuple(kind for kind in get_args(JobKind) if kind not in OUTWARD_KINDS)

for _kind in get_args(JobKind):
    for _outcome in ("done", "failed", "retried"):
        JOBS.labels(_kind, _outcome)  # An alert sees the first failure only as an increase from 0.

_CHANCE = random.SystemRandom()
LEASE = timedelta(seconds=60)
SLICE_SECONDS = 20.0
RELEASE_AGAIN_SECONDS = 0.5

MAX_ATTEMPTS = 3
"""Attempts at a file that may end in an error or in the death of its parser."""
MAX_LOST = 10
"""Workers that may die while they process a file. More than MAX_ATTEMPTS, because most have another cause: an update
of the service, another file in the same process."""
MAX_POSTPONED = 40
"""Attempts, over about three hours, before texts are given up on which a provider fails while it embeds others."""

FILES_COUNTED_AFTER = 10.0
DATABASE_PAUSE_SECONDS = 1.0

UNEXPECTED = "the file could not be processed; the reason is in the service's log"


@dataclass(frozen=True, slots=True)
class Turn:
    """How a turn of a job ended; `why` is a text for the log.

    `put_back`: the job continues later, or waits for a provider or the database. `retried`: an error ended the turn, so
    the job is tried again. `given_up`: the job is no longer needed.
    """

    ended: Literal["done", "failed", "put_back", "retried", "given_up"]
    why: str = ""

    def __str__(self) -> str:
        ended = self.ended.replace("_", " ")
        return f"{ended}: {self.why}" if self.why else ended


DONE = Turn("done")
OVERTAKEN = Turn("given_up", "overtaken")


@dataclass(frozen=True, slots=True)
class JobRunner:
    """Runs jobs, one turn at a time, under a lease that is renewed during the turn.

    A file that is refused for a clear reason fails at once; one that crashes its parser or causes an unexpected error
    fails after three attempts. An unavailable provider or database does not count as an attempt. The provider's jobs
    are then paused for a while, and files are ingested without vectors.

    Attributes:
        slice_seconds: how long a divisible job runs before other tenants have their turn.
    """

    database: Database
    ingestion: Ingestion
    embedder: EntryEmbedder
    upkeep: Upkeep
    reembedding: ReembeddingJob
    matcher: ChangeMatcher
    deliveries: DeliveryService
    erasures: ErasureService
    lease: timedelta = LEASE
    slice_seconds: float = SLICE_SECONDS

    async def run(self, job: Job) -> Turn:
        """Run one turn of a claimed job. Raises DatabaseUnavailable when the job could not be released in time."""
        try:
            return await self._take_turn(job)
        except TenantNotFound:  # its jobs were deleted with it
            return OVERTAKEN

    async def _take_turn(self, job: Job) -> Turn:
        lease = Lease(self.database, job, self.lease)
        try:
            async with lease.kept():
                return await self._perform(job, lease)
        except asyncio.CancelledError:
            # Shutdown: release the job, so that another worker need not wait for the lease to expire.
            with contextlib.suppress(KnowledgeError):
                await asyncio.shield(self._release(job, 0.0, patience=0.0))
            raise
        except ClaimLost:
            # A newer version has a job of its own. If another worker has claimed this job, nothing is removed.
            async with self.database.tenant_session(job.tenant_id) as session:
                await queue.complete_job(session, job)
            return OVERTAKEN
        except TenantNotFound:
            raise
        except ParserDied as error:
            return await self._try_again(job, lease, str(error))
        except (UnreadableDocument, UnsupportedMediaType, InvalidInput, RateLimited) as error:
            return await self._fail(job, lease, str(error))
        except InputRefused as error:
            return await self._fail(job, lease, f"the embedding provider refuses the text: {error.reason}")
        except EmbeddingQuotaUsed as error:
            # The provider works for other tenants: it is not paused.
            await self._release(job, error.retry_after or LONG_PAUSE_SECONDS)
            return Turn("put_back", "the tenant's embedding tokens of the day are used up")
        except EmbeddingUnavailable as error:
            return await self._postpone(job, error)
        except DatabaseUnavailable as error:
            if queue.is_statements_fault(error):
                return await self._try_again(job, lease, "the database gave up on storing the file")
            await self._release(job, DATABASE_PAUSE_SECONDS)
            return Turn("put_back", "database unavailable")
        except Exception as error:
            log.exception("a job failed", extra={"kind": job.kind, "job_id": str(job.id)})
            turn = await self._try_again(job, lease, UNEXPECTED)
            return replace(turn, why=f"after {type(error).__name__}")

    async def _perform(self, job: Job, lease: Lease) -> Turn:
        if job.kind == "ingest_asset":
            return await self._ingest(job, lease)
        pause = await self._advance(job)
        await lease.stop_renewing()
        if pause is not None:
            await self._release(job, pause)
            return Turn("put_back", "more to do")
        async with self.database.tenant_session(job.tenant_id) as session:
            await queue.complete_job(session, job)
        return DONE

    async def _ingest(self, job: Job, lease: Lease) -> Turn:
        if job.lost >= MAX_LOST:
            return await self._fail(job, lease, f"the service was stopped {job.lost} times while it processed the file")
        await self.ingestion.ingest(job, lease)
        # Files often arrive in groups: word statistics are refreshed once for all files of some seconds.
        await self.upkeep.check(job.tenant_id, delay=FILES_COUNTED_AFTER)
        return DONE

    async def _advance(self, job: Job) -> float | None:
        """Run a slice of the job; return the seconds until the next slice, or None when the job is finished."""
        tenant_id = job.tenant_id
        match job.kind:
            case "embed_entries":
                gives_up = job.postponed >= MAX_POSTPONED
                if not await self.embedder.embed_all(tenant_id, seconds=self.slice_seconds, gives_up=gives_up):
                    return 0.0
                await self.upkeep.check(tenant_id)
                return None
            case "refresh_statistics":
                await self.upkeep.refresh_statistics(tenant_id)
                return None
            case "reembed":
                return await self.reembedding.advance(tenant_id)
            case "match_changes":
                return await self.matcher.match(tenant_id)
            case "deliver_webhooks":
                return await self.deliveries.deliver(tenant_id)
            case "index_vectors":
                return await self.upkeep.index_vectors(tenant_id, seconds=self.slice_seconds)
            case "erase":
                return await self.erasures.advance(tenant_id, UUID(job.subject), seconds=self.slice_seconds)
            case "ingest_asset":
                raise ValueError("a file is not ingested in slices")

    async def _fail(self, job: Job, lease: Lease, reason: str) -> Turn:
        if job.kind != "ingest_asset":
            return await self._try_again(job, lease, reason)
        await lease.stop_renewing()
        await self.ingestion.fail(job, reason, lease.generation)
        return Turn("failed")

    async def _try_again(self, job: Job, lease: Lease, reason: str) -> Turn:
        if job.kind == "ingest_asset" and job.attempts >= MAX_ATTEMPTS:
            return await self._fail(job, lease, reason)
        await self._release(job, 2.0 ** min(job.attempts, 8), counts=True)
        return Turn("retried")

    async def _postpone(self, job: Job, error: EmbeddingUnavailable) -> Turn:
        if isinstance(error, NoProvider):
            await self._release(job, PAUSE_SECONDS, postpones=True)
            return Turn("put_back", "no provider for the tenant's model")
        if isinstance(error, TextsFail):
            await self._release(job, PAUSE_SECONDS, postpones=True)
            return Turn("put_back", "the provider fails on some texts")
        # Paused jobs are due as soon as the pause ends, so they need no delay of their own that could outlast it.
        pauses = job.kind in queue.PROVIDER_KINDS
        await self._release(job, choose_pause(error), postpones=not pauses, pauses=pauses)
        return Turn("put_back", "provider unavailable")

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
        """Release a job, with retries while the database is unavailable.

        Raises DatabaseUnavailable after `patience` seconds, by default the lease, after which others can claim it.
        """
        wait = timedelta(seconds=delay)
        end = time.monotonic() + (self.lease.total_seconds() if patience is None else patience)
        while True:
            try:
                if pauses:
                    await queue.pause_provider(self.database, job.tenant_id, wait)
                async with self.database.tenant_session(job.tenant_id) as session:
                    await queue.release_job(session, job, wait, counts=counts, postpones=postpones)
                return
            except DatabaseUnavailable:
                if time.monotonic() >= end:
                    raise
                await asyncio.sleep(RELEASE_AGAIN_SECONDS)


POLL_SECONDS = 1.0
"""How often a worker looks for jobs that no notification announces to it."""
ANNOUNCED_POLL_SECONDS = 60.0
"""And how often if notifications do, for jobs that come otherwise: from a restored backup, with a moved tenant."""
LEAST_PAUSE_SECONDS = 0.2
"""Pause while a due job is held by the transaction that queues it."""
AFTER_FAILURE_SECONDS = 1.0
OUTWARD_TASKS = 4
"""Tenants whose webhooks a worker sends at the same time, so that one whose endpoints hang delays no other."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Claims and runs jobs of all tenants, several at a time.

    A job is held by a lease; when a worker dies, the lease expires and another worker claims the job. A worker looks
    for jobs when a notification announces one, and when it expects one to become due.

    Attributes:
        poll_seconds: how often it also looks where notifications do not arrive.
        direct_dsn: the address to listen at for notifications, if `database` uses a pooler that does not pass them.
    """

    database: Database
    jobs: JobQueue
    runner: JobRunner
    sweep: Sweep
    concurrency: int = 2
    poll_seconds: float = POLL_SECONDS
    direct_dsn: str | None = field(default=None, repr=False)

    async def run(self) -> None:
        """Run jobs until cancelled."""
        announcements = Announcements(self.database, self.jobs, self.direct_dsn)
        with acting_for_service():
            async with asyncio.TaskGroup() as group:
                for kinds, tasks in ((KINDS, self.concurrency), (OUTWARD_KINDS, OUTWARD_TASKS)):
                    looking = asyncio.Lock()
                    for _ in range(tasks):
                        group.create_task(self._work(kinds, looking, announcements))
                group.create_task(self._sweep())
                group.create_task(announcements.hear())

    async def run_once(self, kinds: Sequence[JobKind] | None = None) -> bool:
        """Run one due job of `kinds` (None: of any kind); return whether there was one. Raises DatabaseUnavailable."""
        job = await queue.claim_job(self.database, kinds or KINDS + OUTWARD_KINDS, self.runner.lease)
        if job is not None:
            await self._run(job)
        return job is not None

    async def _work(self, kinds: Sequence[JobKind], looking: asyncio.Lock, announcements: Announcements) -> None:
        """Run jobs, one at a time. Of the tasks without one, one looks for the next, and the others wait for it."""
        while True:
            try:
                async with looking:
                    job = await self._find_job(kinds, announcements)
                await self._run(job)
            except KnowledgeError as error:
                log.warning("worker waits: %s", error)
                await asyncio.sleep(AFTER_FAILURE_SECONDS)
            except Exception:
                log.exception("a job failed unexpectedly")
                await asyncio.sleep(AFTER_FAILURE_SECONDS)
            # The job may be due again, and may have queued others.
            self.jobs.wake()

    async def _find_job(self, kinds: Sequence[JobKind], announcements: Announcements) -> Job:
        """Claim a job as soon as there is one. Raises DatabaseUnavailable."""
        while True:
            calls = self.jobs.calls
            job = await queue.claim_job(self.database, kinds, self.runner.lease)
            if job is not None:
                return job
            pause = self.poll_seconds
            if await announcements.arrive():
                pause = max(pause, ANNOUNCED_POLL_SECONDS * _CHANCE.uniform(0.75, 1.25))
            due = await queue.next_due(self.database, kinds)
            if due is not None:
                pause = min(pause, max(due, LEAST_PAUSE_SECONDS))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.jobs.wait(calls)

    async def _run(self, job: Job) -> None:
        started = time.perf_counter()
        with (
            acting_for_service(),
            span(
                f"job {job.kind}", "consumer", job_id=str(job.id), tenant_id=str(job.tenant_id), attempt=job.attempts
            ) as seen,
        ):
            turn = await self.runner.run(job)
            seen.set(outcome=turn.ended)
            if turn.ended == "failed":
                seen.fail(turn.ended)
            seconds = time.perf_counter() - started
            JOBS.labels(job.kind, turn.ended).inc()
            JOB_SECONDS.labels(job.kind).observe(seconds)
            log.info(
                "job %s",
                turn,
                extra={
                    "kind": job.kind,
                    "job_id": str(job.id),
                    "tenant_id": str(job.tenant_id),
                    "attempt": job.attempts,
                    "milliseconds": round(1000 * seconds),
                },
            )

    async def _sweep(self) -> None:
        turn = 0
        while True:
            try:
                await self.sweep.run(turn)
                turn += 1
            except DatabaseUnavailable as error:
                log.warning("the sweep failed; it will be retried later: %s", error)
            except Exception:
                log.exception("the sweep failed; it will be retried later")
            await asyncio.sleep(SWEEP_SECONDS)
