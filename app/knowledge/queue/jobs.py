"""Handing out work that outlives a request."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from app.db.queries.work import jobs as db
from app.db.queries.work.jobs import JobKind
from app.db.session import TenantSession


class JobQueue:
    """Queues work inside the caller's transaction, and wakes workers of this process."""

    def __init__(self) -> None:
        self.awake = asyncio.Event()

    async def enqueue(
        self, session: TenantSession, kind: JobKind, subject: str, *, delay: float = 0.0
    ) -> None:
        """Queue work to run `delay` seconds from now, in the transaction that makes it necessary."""
        await db.enqueue_job(session, kind, subject, timedelta(seconds=delay))

    def wake(self) -> None:
        """Tell workers of this process that there is work, after its transaction has committed."""
        self.awake.set()
