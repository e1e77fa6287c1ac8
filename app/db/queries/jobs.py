"""The job queue."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from uuid import UUID

import asyncpg
from sqlalchemy.pool import NullPool

from app.db.database import Database
from app.db.engine import make_engine
from app.db.rows import new_id
from app.db.server import Server
from app.db.session import TenantSession
from app.db.statements import load_statements
from app.errors import DatabaseUnavailable

SQL = load_statements(__name__)
_CHANCE = random.SystemRandom()

JobKind = Literal[
    "ingest_asset",
    "embed_entries",
    "refresh_statistics",
    "index_vectors",
    "reembed",
    "match_changes",
    "deliver_webhooks",
    "erase",
]

PROVIDER_KINDS: frozenset[JobKind] = frozenset({"embed_entries"})
"""Work that needs the provider of its tenant's model, and waits while the provider is paused. Files do not wait: they
are parsed, and found by the keyword leg in the meantime."""

CHANNEL = "jobs"
PROBE_SECONDS = 5.0
CHECK_SECONDS = 30.0
LONGEST_NOTICE = 86_400.0
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
        attempts: tries so far, including this one, except those that ended for reasons outside the job.
        fence: proves the claim; it changes when another worker gets the job.
        lost: number of workers that died or were presumed dead while they held the job.
        postponed: tries that ended because this process has no provider for the model, or because the provider failed
            on the job's content while it answered other requests.
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
    """Jobs of one kind over all tenants: due, not yet due, running; and the longest wait of a due job."""

    kind: str
    waiting: int
    scheduled: int
    running: int
    oldest_seconds: float

    def __add__(self, other: QueueFigures) -> QueueFigures:
        """The figures of both, which are of the same kind."""
        return QueueFigures(
            self.kind,
            self.waiting + other.waiting,
            self.scheduled + other.scheduled,
            self.running + other.running,
            max(self.oldest_seconds, other.oldest_seconds),
        )


async def enqueue_job(session: TenantSession, kind: JobKind, subject: str, delay: timedelta) -> None:
    """Queue a job once; a job that is already queued runs at the earlier of the two times."""
    await session.execute(
        SQL["enqueue"], id=new_id(), kind=kind, subject=subject, delay=delay, needs_provider=kind in PROVIDER_KINDS
    )


async def claim_job(database: Database, kinds: Sequence[JobKind], lease: timedelta) -> Job | None:
    """Claim a job with an expired lease, otherwise the next due job of a tenant chosen at random.

    The nodes of a cluster are asked in a random order. Raises DatabaseUnavailable if one does not answer and the others
    have no job.
    """
    servers = await database.holders()
    failure: DatabaseUnavailable | None = None
    for server in _CHANCE.sample(servers, len(servers)):
        try:
            async with server.platform_session() as session:
                job = await session.fetch_one_as(Job, SQL["claim"], kinds=list(kinds), lease=lease)
        except DatabaseUnavailable as error:
            failure = error
        else:
            if job is not None:
                return job
    if failure is not None:
        raise failure
    return None


async def next_due(database: Database, kinds: Sequence[JobKind]) -> float | None:
    """The seconds until a job of these kinds can be claimed; None without any. Raises DatabaseUnavailable.

    That is when it becomes due, the pause of its provider ends, or the lease of a worker that may have died expires.
    """
    due: list[float] = []
    for server in await database.holders():
        async with server.platform_session() as session:
            seconds = await session.fetch_value_as(float, SQL["next_due"], kinds=list(kinds))
        if seconds is not None:
            due.append(seconds)
    return min(due, default=None)


async def extend_lease(session: TenantSession, job: Job, lease: timedelta) -> bool:
    """Extend the lease; False when the job was given to another worker or removed."""
    return await session.execute(SQL["extend"], id=job.id, fence=job.fence, lease=lease) > 0


async def complete_job(session: TenantSession, job: Job) -> bool:
    """Remove a finished job, in the transaction that writes its results; False when the claim is lost."""
    return await session.execute(SQL["complete"], id=job.id, fence=job.fence) > 0


async def release_job(
    session: TenantSession, job: Job, delay: timedelta, *, counts: bool, postpones: bool = False
) -> None:
    """Return a job to the queue, to be retried after `delay`.

    `counts`: whether this try counts. With `postpones`, the delay doubles each time.
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


async def pause_provider(database: Database, tenant_id: UUID, pause: timedelta) -> None:
    """Hand out no job that needs the provider of the tenant's model, for any tenant, for `pause`.

    Raises DatabaseUnavailable.
    """
    async with database.tenant_session(tenant_id) as own:
        model_id = await own.fetch_value(SQL["model"])
    async with database.shared_session(tenant_id) as session:
        await session.execute(SQL["pause"], model_id=model_id, pause=pause)


async def is_provider_paused(session: TenantSession) -> bool:
    """Whether the provider of the tenant's model is paused."""
    return bool(await session.fetch_value(SQL["is_paused"]))


class Unheard(Exception):
    """Notifications do not arrive: a pooler shares connections between transactions."""


async def listen_for_jobs(
    server: Server, announce: Callable[[float], None], direct_dsn: str | None, on_ready: Callable[[], None]
) -> None:
    """Call `announce` whenever a process queues a job, with the seconds until it is due, until the connection ends.

    Calls `on_ready` once a notification has arrived. Uses a separate connection outside the pool, at `direct_dsn` if
    given. Raises the errors of connecting, Unheard, and TimeoutError when the connection no longer answers.
    """
    engine = make_engine(direct_dsn, poolclass=NullPool) if direct_dsn else server.make_engine_apart()
    probe = f"probe {new_id()}"
    ended, answered = asyncio.Event(), asyncio.Event()

    def end(_connection: object) -> None:
        ended.set()
        answered.set()

    def receive(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        if payload == probe:
            answered.set()
        elif not str(payload).startswith("probe "):
            announce(_read_notice(str(payload)))

    try:
        async with engine.connect() as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            assert isinstance(driver, asyncpg.Connection)
            driver.add_termination_listener(end)
            try:
                await driver.add_listener(CHANNEL, receive)
                async with server.platform_session() as session:
                    await session.execute(SQL["announce"], text=probe)
                if not await _happens(answered, PROBE_SECONDS):
                    raise Unheard
                if ended.is_set():
                    raise ConnectionError("it ended at once")
                on_ready()
                # A connection that a network has dropped without a word would otherwise seem to be idle.
                while not await _happens(ended, CHECK_SECONDS):
                    await driver.execute("select 1", timeout=PROBE_SECONDS)
            finally:
                driver.terminate()
    finally:
        await engine.dispose()


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _read_notice(payload: str) -> float:
    try:
        seconds = float(payload or 0)
    except ValueError:
        return 0.0
    return seconds if 0 <= seconds <= LONGEST_NOTICE else 0.0


def is_statements_fault(error: DatabaseUnavailable) -> bool:
    """Whether the database is up and cancelled this statement, so that the same job may fail again."""
    return isinstance(error.__cause__, STATEMENT_FAILURES)


async def count_jobs(database: Database) -> list[QueueFigures]:
    """Jobs by kind; kinds without jobs are omitted. Counts stop at COUNTED_JOBS. Raises DatabaseUnavailable."""
    found: dict[str, QueueFigures] = {}
    for node in await database.holders():
        async with node.platform_session(background=timedelta(seconds=2)) as session:
            for figures in await session.fetch_as(QueueFigures, SQL["figures"], most=COUNTED_JOBS):
                known = found.get(figures.kind)
                found[figures.kind] = figures if known is None else known + figures
    return list(found.values())


async def hold_subject(session: TenantSession, kind: JobKind, subject: str) -> None:
    """Wait for others that hold or cancel jobs of this subject, and make later ones wait.

    A deletion locks the job first and then the asset, as the worker does. A caller that locks the asset first and then
    queues a job must call this before, or the two could deadlock.
    """
    await session.fetch(SQL["hold_subject"], kind=kind, subject=subject)


async def cancel_jobs(session: TenantSession, kind: JobKind, subject: str) -> None:
    """Remove a job, queued or running; a worker that runs it finds that its claim is lost."""
    await hold_subject(session, kind, subject)
    await session.execute(SQL["cancel"], kind=kind, subject=subject)
