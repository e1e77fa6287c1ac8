"""Queue jobs for background workers."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from app.db.queries.work import jobs as db
from app.db.queries.work.jobs import JobKind
from app.db.session import TenantSession


class JobQueue:
    """Queues jobs in the caller's transaction, and wakes the workers of this process.

    Attributes:
        calls: how many times the workers were woken.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._called = asyncio.Event()

    async def enqueue(
        self, session: TenantSession, kind: JobKind, subject: str, *, delay: float = 0.0
    ) -> None:
        """Queue a job to run `delay` seconds from now, in the transaction of the change that requires it."""
        await db.enqueue_job(session, kind, subject, timedelta(seconds=delay))

    def wake(self) -> None:
        """Wake the workers of this process; call it after the transaction has committed."""
        self.calls += 1
        self._called.set()
        self._called = asyncio.Event()

    async def wait(self, calls: int) -> None:
        """Wait until the workers have been woken more than `calls` times.

        A worker that reads `calls` before it looks for a job misses no call that comes while it looks, whatever the
        others do.
        """
        if self.calls == calls:
            await self._called.wait()
