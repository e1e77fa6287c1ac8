"""The job queue, as stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from app.db.identifiers import new_id
from app.db.session import PlatformSession, TenantSession
from app.db.statements import load_statements

SQL = load_statements("jobs")


@dataclass(frozen=True, slots=True)
class Job:
    """Claimed work. `fence` proves the claim: it changes when the job is given to another worker."""

    tenant_id: UUID
    id: UUID
    kind: str
    subject: str
    attempts: int
    fence: int


async def enqueue_job(session: TenantSession, kind: str, subject: str, delay: timedelta) -> None:
    """Queue work once; work that is queued already runs at the earlier of the two times."""
    await session.execute(
        SQL["enqueue"], tenant_id=session.tenant_id, id=new_id(), kind=kind, subject=subject, delay=delay
    )


async def claim_job(session: PlatformSession, kinds: Sequence[str], lease: timedelta) -> Job | None:
    """Take the next due job of any tenant, or one whose worker let its lease run out."""
    row = await session.fetch_row(SQL["claim"], kinds=list(kinds), lease=lease)
    return None if row is None else Job(**dict(row))


async def extend_lease(session: TenantSession, job: Job, lease: timedelta) -> bool:
    """Keep a job for longer; False when it was given to another worker or removed."""
    return (
        await session.execute(
            SQL["extend"], tenant_id=session.tenant_id, id=job.id, fence=job.fence, lease=lease
        )
        > 0
    )


async def complete_job(session: TenantSession, job: Job) -> bool:
    """Remove finished work, in the transaction that writes its results; False when the claim is lost."""
    return await session.execute(SQL["complete"], tenant_id=session.tenant_id, id=job.id, fence=job.fence) > 0


async def release_job(session: TenantSession, job: Job, delay: timedelta, *, counts: bool) -> None:
    """Give a job back to be tried again after `delay`; `counts` says whether this attempt counts."""
    await session.execute(
        SQL["release"], tenant_id=session.tenant_id, id=job.id, fence=job.fence, delay=delay, counts=counts
    )


async def cancel_jobs(session: TenantSession, kind: str, subject: str) -> None:
    """Remove work, queued or running; a running worker finds its claim lost."""
    await session.execute(SQL["cancel"], tenant_id=session.tenant_id, kind=kind, subject=subject)
