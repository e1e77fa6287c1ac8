"""The worker: runs queued jobs, in the service's process or in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.db.database import Database
from app.db.principals import acting_for_service
from app.db.queries.work import jobs as queue
from app.db.queries.work.jobs import JobKind
from app.db.server.server import Server
from app.errors import DatabaseUnavailable, KnowledgeError
from app.knowledge.queue import JobQueue
from app.knowledge.upkeep.sweep import Sweep
from app.knowledge.worker.runner import KINDS, OUTWARD_KINDS, JobRunner
from app.telemetry.metrics import JOB_SECONDS, JOBS
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.worker")

POLL_SECONDS = 1.0
LISTEN_AGAIN_SECONDS = 10.0
SWEEP_SECONDS = 300.0
OUTWARD_TASKS = 4
"""Tenants whose webhooks a worker sends at the same time, so that one whose endpoints hang delays no other."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Claims and runs jobs of all tenants, several at a time.

    A job is held by a lease; when a worker dies, the lease expires and another worker claims the job. Workers look for
    jobs every `poll_seconds`, and as soon as a notification announces one.

    Attributes:
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
        with acting_for_service():
            await self._run()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self.concurrency):
                group.create_task(self._work(KINDS))
            for _ in range(OUTWARD_TASKS):
                group.create_task(self._work(OUTWARD_KINDS))
            group.create_task(self._sweep())
            group.create_task(self._listen())

    async def run_once(self, kinds: Sequence[JobKind] | None = None) -> bool:
        """Run one due job of `kinds` (None: of any kind); return whether there was one. Raises DatabaseUnavailable."""
        job = await queue.claim_job(self.database, kinds or KINDS + OUTWARD_KINDS, self.runner.lease)
        if job is None:
            return False
        started = time.perf_counter()
        with (
            acting_for_service(),
            span(
                f"job {job.kind}",
                "consumer",
                job_id=str(job.id),
                tenant_id=str(job.tenant_id),
                attempt=job.attempts,
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
        return True

    async def _work(self, kinds: Sequence[JobKind]) -> None:
        while True:
            busy = False
            calls = self.jobs.calls
            try:
                busy = await self.run_once(kinds)
            except KnowledgeError as error:
                log.warning("worker waits: %s", error)
                await asyncio.sleep(POLL_SECONDS)
            except Exception:
                log.exception("a job failed unexpectedly")
                await asyncio.sleep(POLL_SECONDS)
            if not busy:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.poll_seconds):
                        await self.jobs.wait(calls)

    async def _listen(self) -> None:
        listening: dict[Server, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                with contextlib.suppress(DatabaseUnavailable):
                    for node in await self.database.holders():
                        if node not in listening or listening[node].done():
                            listening[node] = group.create_task(self._listen_at(node))
                await asyncio.sleep(LISTEN_AGAIN_SECONDS)

    async def _listen_at(self, node: Server) -> None:
        """Wake the workers at notifications of a node, until its connection ends."""
        try:
            direct_dsn = self.direct_dsn if node is self.database else None
            await queue.listen_for_jobs(node, self.jobs.wake, direct_dsn)
        except Exception as error:
            log.debug("no notifications of new jobs: %s", type(error).__name__)

    async def _sweep(self) -> None:
        while True:
            try:
                await self.sweep.run()
            except Exception:
                log.exception("the sweep failed; it will be retried later")
            await asyncio.sleep(SWEEP_SECONDS)
