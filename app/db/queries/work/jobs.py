"""The job queue, as stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from uuid import UUID

import asyncpg

from app.db.database import Database
from app.db.identifiers import new_id
from app.db.session import PlatformSession, TenantSession
from app.db.statements import load_statements
from app.errors import DatabaseUnavailable

SQL = load_statements(__name__)

JobKind = Literal[
    "ingest_asset",
    "embed_entries",
    "refresh_statistics",
    "index_vectors",
    "reembed",
    "match_changes",
    "deliver_webhooks",
]

PROVIDER_KINDS: frozenset[JobKind] = frozenset({"embed_entries"})
"""Work that is nothing without the provider of its tenant's model, and waits while that is paused. Files do not: they
are read and found by their words meanwhile."""

CHANNEL = "jobs"
COUNTED_JOBS = 100_000
LONGEST_POSTPONEMENT = timedelta(minutes=5)

STATEMENT_FAILURES = (
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.OutOfMemoryError,
)


@dataclass(frozen=True, slots=True)
class Job:
    """Claimed work.

    Attributes:
        attempts: tries begun, this one included, but for those that ended for no fault of the work.
        fence: proves the claim; it changes when the job is given to another worker.
        lost: workers that died, or were given up for dead, while they had the job.
        postponed: tries that ended because this process has no provider of the model, or the provider, which answered
            others, failed at what the job is about.
    """

    tenant_id: UUID
    id: UUID
    kind: JobKind
    subject: str
    attempts: int
    fence: int
    lost: int = 0
    postponed: int = 0


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """Jobs of one kind over all tenants: due, not yet due, under way; and how long the first of the due has waited."""

    kind: str
    waiting: int
    scheduled: int
    running: int
    oldest_seconds: float


async def enqueue_job(session: TenantSession, kind: JobKind, subject: str, delay: timedelta) -> None:
    """Queue work once; work that is queued already runs at the earlier of the two times."""
    await session.execute(
        SQL["enqueue"],
        id=new_id(),
        kind=kind,
        subject=subject,
        delay=delay,
        needs_provider=kind in PROVIDER_KINDS,
    )


async def claim_job(session: PlatformSession, kinds: Sequence[JobKind], lease: timedelta) -> Job | None:
    """Take a job whose worker let its lease run out, else the next due one of a tenant chosen by lot."""
    return await session.fetch_one_as(Job, SQL["claim"], kinds=list(kinds), lease=lease)


async def extend_lease(session: TenantSession, job: Job, lease: timedelta) -> bool:
    """Keep a job for longer; False when it was given to another worker or removed."""
    return await session.execute(SQL["extend"], id=job.id, fence=job.fence, lease=lease) > 0


async def complete_job(session: TenantSession, job: Job) -> bool:
    """Remove finished work, in the transaction that writes its results; False when the claim is lost."""
    return await session.execute(SQL["complete"], id=job.id, fence=job.fence) > 0


async def release_job(
    session: TenantSession, job: Job, delay: timedelta, *, counts: bool, postpones: bool = False
) -> None:
    """Give a job back to be tried again after `delay`.

    `counts` says whether this try counts. With `postpones` the delay doubles from one time to the next.
    """
    await session.execute(
        SQL["release"],
        id=job.id,
        fence=job.fence,
        delay=delay,
        counts=counts,
        postpones=postpones,
        longest=LONGEST_POSTPONEMENT,
        needs_provider=job.kind in PROVIDER_KINDS,
    )


async def pause_provider(session: TenantSession, pause: timedelta) -> None:
    """Hand out no work that needs the provider of the tenant's model, of any tenant, for as long as `pause`."""
    await session.execute(SQL["pause"], pause=pause)


async def is_provider_paused(session: TenantSession, within: timedelta = timedelta(0)) -> bool:
    """Whether the provider of the tenant's model is paused, or was so `within` the time before now."""
    return bool(await session.fetch_value(SQL["is_paused"], within=within))


async def listen_for_jobs(database: Database, wake: Callable[[], None]) -> None:
    """Call `wake` whenever any process queues work that is due, and once at the start, until the connection ends.

    Takes a connection of its own beside the pool. Raises what connecting raises. A pooler between, such as PgBouncer
    in transaction mode, lets no notification through: workers poll all the same.
    """
    engine = database.make_engine_apart()
    try:
        async with engine.connect() as connection:
            raw = await connection.get_raw_connection()
            driver = raw.driver_connection
            assert isinstance(driver, asyncpg.Connection)
            ended = asyncio.Event()
            driver.add_termination_listener(lambda _: ended.set())
            await driver.add_listener(CHANNEL, lambda *_: wake())
            wake()
            await ended.wait()
    finally:
        await engine.dispose()


def is_statements_fault(error: DatabaseUnavailable) -> bool:
    """Whether the database is there, and gave up on what it was asked: the same work may fail again."""
    return isinstance(error.__cause__, STATEMENT_FAILURES)


async def count_jobs(database: Database) -> list[QueueFigures]:
    """How much work there is, by kind; kinds without any are left out. Counts stop at COUNTED_JOBS."""
    async with database.platform_session(background=timedelta(seconds=2)) as session:
        return await session.fetch_as(QueueFigures, SQL["figures"], most=COUNTED_JOBS)


async def cancel_jobs(session: TenantSession, kind: JobKind, subject: str) -> None:
    """Remove work, queued or running; a running worker finds its claim lost."""
    await session.execute(SQL["cancel"], kind=kind, subject=subject)
