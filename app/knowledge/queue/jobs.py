"""Queue jobs for background workers."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from app.db.queries.work import jobs as db
from app.db.queries.work.jobs import JobKind
from app.db.session import TenantSession


class JobQueue:
    """Queues jobs in the caller's transaction, and wakes the workers of this process."""

    def __init__(self) -> None:
        self.awake = asyncio.Event()

    async def enqueue(
        self, session: TenantSession, kind: JobKind, subject: str, *, delay: float = 0.0
    ) -> None:
        """Queue a job to run `delay` seconds from now, in the transaction of the change that requires it."""
        await db.enqueue_job(session, kind, subject, timedelta(seconds=delay))

    def wake(self) -> None:
        """Wake the workers of this process; call it after the transaction has committed."""
        self.awake.set()
