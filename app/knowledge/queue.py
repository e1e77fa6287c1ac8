"""Queue jobs for workers. A worker holds a job by a lease; a job pauses after a provider fails."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from uuid import UUID

from app.db.database import Database
from app.db.queries import assets
from app.db.queries import jobs as queue
from app.db.queries.jobs import Job, JobKind
from app.db.session import TenantSession
from app.errors import DatabaseUnavailable, EmbeddingUnavailable

log = logging.getLogger("app.knowledge.queue")

PAUSE_SECONDS = 15.0
LONG_PAUSE_SECONDS = 60.0
"""After a refusal that waiting does not resolve, such as a rejected key."""
LONGEST_PAUSE_SECONDS = 900.0
"""Upper bound, even if the provider asks for a longer pause."""


def choose_pause(error: EmbeddingUnavailable) -> float:
    """Choose and log the number of seconds for which no job calls the provider."""
    pause = error.retry_after or (LONG_PAUSE_SECONDS if error.permanent else PAUSE_SECONDS)
    pause = min(pause, LONGEST_PAUSE_SECONDS)
    log.warning(
        "the provider is unavailable; its jobs wait", extra={"provider": error.provider, "seconds": round(pause, 1)}
    )
    return pause


class JobQueue:
    """Queues jobs in the caller's transaction, and wakes the workers of this process.

    Attributes:
        calls: how many times the workers were woken.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._called = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None

    async def enqueue(self, session: TenantSession, kind: JobKind, subject: str, *, delay: float = 0.0) -> None:
        """Queue a job to run `delay` seconds from now, in the transaction of the change that requires it."""
        await queue.enqueue_job(session, kind, subject, timedelta(seconds=delay))

    def wake(self) -> None:
        """Wake the workers of this process; call it after the transaction has committed."""
        self.calls += 1
        self._called.set()
        self._called = asyncio.Event()

    def wake_in(self, seconds: float) -> None:
        """Wake the workers of this process when a job that was announced is due: the earliest one.

        They look then when the next one is due.
        """
        if seconds <= 0:
            self.wake()
            return
        loop = asyncio.get_running_loop()
        if self._alarm is not None and not self._alarm.cancelled():
            if loop.time() < self._alarm.when() <= loop.time() + seconds:
                return
            self._alarm.cancel()
        self._alarm = loop.call_later(seconds, self.wake)

    async def wait(self, calls: int) -> None:
        """Wait until the workers have been woken more than `calls` times.

        A worker that reads `calls` before it looks for a job misses no call that comes while it looks, whatever the
        others do.
        """
        if self.calls == calls:
            await self._called.wait()


BEAT_SECONDS = 1.0
"""Interval at which the lease is renewed and progress is stored; shorter if the lease is under three beats."""


class ClaimLost(Exception):
    """Another worker has the job, or its asset was deleted or has a newer version; nothing was written."""


class Lease:
    """Renews the claim on a job, stores the job's progress, and cancels the work once the claim is lost.

    Attributes:
        progress: returns the progress, 0 to 1; called at each beat.
        generation: generation of the asset that is being ingested, once it is known.
    """

    def __init__(self, database: Database, job: Job, duration: timedelta) -> None:
        self._database = database
        self._job = job
        self._duration = duration
        self._asset_id: UUID | None = None
        self._ended = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None
        self._lost = False
        self.progress: Callable[[], float] = lambda: 0.0
        self.generation: int | None = None

    def follow(self, asset_id: UUID, generation: int) -> None:
        """Store progress on this version of an asset, and cancel the work when there is a newer version."""
        self._asset_id, self.generation = asset_id, generation

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Hold the job until the block ends. Raises ClaimLost at any point where the block awaits."""
        worker = asyncio.current_task()
        assert worker is not None
        self._beating = asyncio.create_task(self._beat(worker))
        try:
            yield
        except asyncio.CancelledError:
            if self._lost and worker.uncancel() == 0:
                raise ClaimLost from None
            raise
        finally:
            await self.stop_renewing()

    async def stop_renewing(self) -> None:
        """Stop renewing before the transaction that ends the job, which checks the claim itself."""
        self._ended.set()
        if self._beating is not None:
            await asyncio.wait([self._beating])

    async def _beat(self, worker: asyncio.Task[object]) -> None:
        pause = min(BEAT_SECONDS, self._duration.total_seconds() / 3)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._ended.wait()
            if self._ended.is_set():
                return
            try:
                held = await self._renew()
            except DatabaseUnavailable:
                continue
            except Exception:
                log.exception("a lease could not be renewed", extra={"job_id": str(self._job.id)})
                continue
            if not held and not self._ended.is_set():
                self._lost = True
                worker.cancel()
                return

    async def _renew(self) -> bool:
        async with self._database.tenant_session(self._job.tenant_id) as session:
            if not await queue.extend_lease(session, self._job, self._duration):
                return False
            if self._asset_id is None or self.generation is None:
                return True
            return await assets.set_progress(session, self._job, self._asset_id, self.generation, self.progress())
