"""Doing queued work, in the service's own process or in one of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from datetime import timedelta

from app.db import jobs as queue
from app.db.jobs import Job
from app.db.session import Database
from app.errors import (
    EmbeddingUnavailable,
    InvalidInput,
    KnowledgeError,
    TenantNotFound,
    UnreadableDocument,
    UnsupportedMediaType,
)
from app.knowledge.embedding import EntryEmbedder
from app.knowledge.ingestion import ClaimLost, Ingestion
from app.knowledge.jobs import JobQueue
from app.knowledge.upkeep import Upkeep

log = logging.getLogger("app.knowledge.worker")

KINDS = ("ingest_asset", "embed_entries", "refresh_statistics", "index_vectors")
LEASE = timedelta(seconds=60)
MAX_ATTEMPTS = 3
POLL_SECONDS = 1.0
SWEEP_SECONDS = 300.0
PAUSE_SECONDS = 15.0


class Worker:
    """Claims jobs of any tenant and does them, several at a time.

    A job is held by a lease that is renewed while the work goes on; when a worker dies, the lease runs out and
    another takes the job over. A provider that is down does not use up a job's attempts.
    """

    def __init__(
        self,
        database: Database,
        jobs: JobQueue,
        ingestion: Ingestion,
        embedder: EntryEmbedder,
        upkeep: Upkeep,
        *,
        concurrency: int = 2,
        lease: timedelta = LEASE,
    ) -> None:
        self._database = database
        self._jobs = jobs
        self._ingestion = ingestion
        self._embedder = embedder
        self._upkeep = upkeep
        self._concurrency = concurrency
        self._lease = lease

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work())
            group.create_task(self._sweep())

    async def run_once(self) -> bool:
        """Do one due job; False when there is none. Raises DatabaseUnavailable."""
        async with self._database.platform_session() as session:
            job = await queue.claim_job(session, KINDS, self._lease)
        if job is None:
            return False
        started = time.perf_counter()
        async with self._held(job):
            outcome = await self._do(job)
        log.info(
            "job %s",
            outcome,
            extra={
                "kind": job.kind,
                "job_id": str(job.id),
                "tenant_id": str(job.tenant_id),
                "attempt": job.attempts,
                "milliseconds": round(1000 * (time.perf_counter() - started)),
            },
        )
        return True

    async def _work(self) -> None:
        while True:
            busy = False
            try:
                busy = await self.run_once()
            except KnowledgeError as error:
                log.warning("worker waits: %s", error)
                await asyncio.sleep(POLL_SECONDS)
            except Exception:
                log.exception("a job failed in an unexpected way")
                await asyncio.sleep(POLL_SECONDS)
            if not busy:
                self._jobs.awake.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._jobs.awake.wait()

    async def _sweep(self) -> None:
        while True:
            try:
                await self._upkeep.sweep()
            except Exception:
                log.exception("the sweep failed; it is tried again later")
            await asyncio.sleep(SWEEP_SECONDS)

    async def _do(self, job: Job) -> str:
        try:
            match job.kind:
                case "ingest_asset":
                    await self._ingestion.ingest(job)
                    await self._upkeep.check(job.tenant_id)
                case "embed_entries":
                    await self._embedder.embed_all(job.tenant_id)
                    async with self._database.tenant_session(job.tenant_id) as session:
                        await queue.complete_job(session, job)
                    await self._upkeep.check(job.tenant_id)
                case "refresh_statistics":
                    await self._upkeep.refresh_statistics(job)
                case _:
                    await self._upkeep.index_vectors(job)
        except asyncio.CancelledError:
            # Shutting down: another worker need not wait for the lease to run out.
            await asyncio.shield(self._release(job, 0.0, counts=False))
            raise
        except (ClaimLost, TenantNotFound):
            # A newer version has a job of its own; where another worker took this one over, nothing is removed.
            async with self._database.tenant_session(job.tenant_id) as session:
                await queue.complete_job(session, job)
            return "given up: overtaken"
        except (UnreadableDocument, UnsupportedMediaType, InvalidInput) as error:
            await self._ingestion.fail(job, str(error))
            return "failed"
        except EmbeddingUnavailable as error:
            await self._release(job, error.retry_after or PAUSE_SECONDS, counts=False)
            return "put back: provider unavailable"
        except Exception as error:
            log.exception("a job failed", extra={"kind": job.kind, "job_id": str(job.id)})
            if job.kind == "ingest_asset" and job.attempts >= MAX_ATTEMPTS:
                await self._ingestion.fail(job, "the file could not be processed; the service's log says why")
                return "failed"
            await self._release(job, 2.0 ** min(job.attempts, 8), counts=True)
            return f"put back after {type(error).__name__}"
        return "done"

    async def _release(self, job: Job, delay: float, *, counts: bool) -> None:
        async with self._database.tenant_session(job.tenant_id) as session:
            await queue.release_job(session, job, timedelta(seconds=delay), counts=counts)

    @contextlib.asynccontextmanager
    async def _held(self, job: Job) -> AsyncIterator[None]:
        """Renew the job's lease while the work goes on."""

        async def renew() -> None:
            while True:
                await asyncio.sleep(self._lease.total_seconds() / 3)
                with contextlib.suppress(KnowledgeError):
                    async with self._database.tenant_session(job.tenant_id) as session:
                        await queue.extend_lease(session, job, self._lease)

        renewal = asyncio.create_task(renew())
        try:
            yield
        finally:
            renewal.cancel()
