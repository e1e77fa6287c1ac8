"""Choose the replica for a tenant's reads: it has every write of the tenant and is recent enough."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeVar
from uuid import UUID

import asyncpg

from app.concurrency.background import start_background
from app.concurrency.part import LastWrites
from app.db.outage import AWAY
from app.db.rows import Connection
from app.db.server import Server
from app.errors import ConfigurationError, DatabaseUnavailable
from app.telemetry.metrics import READS

ANSWER_SECONDS = 1.0
"""A server that has not answered by then is treated as absent."""

_QUESTION = """
select (select system_identifier from pg_control_system()) as cluster, current_database() as database,
       pg_is_in_recovery() as replays,
       (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end
        - '0/0'::pg_lsn)::bigint as position
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """The state that a server reports.

    Attributes:
        place: the cluster and the database, the same for a primary and its replicas.
        replays: whether it is a replica.
        position: bytes of the log that it has written or, as a replica, replayed; None before the first.
    """

    place: tuple[int, str]
    replays: bool
    position: int | None


class Probe:
    """A connection that is opened when it is needed, and again after a failure."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Connection | None = None

    async def ask(self) -> Answer:
        """Raises OSError, TimeoutError, asyncpg.PostgresError and asyncpg.InterfaceError."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if self._connection is None:
                    self._connection = await asyncpg.connect(self._dsn, statement_cache_size=0)
                row = await self._connection.fetchrow(_QUESTION)
        except BaseException:
            self.close()
            raise
        assert row is not None
        return Answer((row["cluster"], row["database"]), row["replays"], row["position"])

    def close(self) -> None:
        """Close the connection at once."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


async def ask_once(dsn: str) -> Answer:
    """Ask on a new connection, and close it. Raises as `Probe.ask`."""
    probe = Probe(dsn)
    try:
        return await probe.ask()
    finally:
        probe.close()


log = logging.getLogger("app.db.replicas")

INTERVAL = 0.25
"""Seconds between two checks of all servers. A write keeps its tenant's reads on the primary for about as long, and for
as long as the replica lags."""

CHECK_AGAIN = 30.0
"""Seconds until a replica that failed its check is checked again."""

Check = Callable[[str], Awaitable[None]]
"""Checks an address. Raises ConfigurationError."""

Result = TypeVar("Result")

_reader: ContextVar[Replica | None] = ContextVar("reader", default=None)


def current_replica() -> Replica | None:
    """The replica that serves the reads of the running work; None: the primary does."""
    return _reader.get()


@dataclass(slots=True)
class Replica:
    """One replica.

    Attributes:
        name: its host and port.
        covers: every write that was acknowledged before this time, by `time.monotonic`, is visible on it.
        problem: why it serves no reads; None if it serves.
    """

    name: str
    database: Server
    probe: Probe = field(repr=False)
    covers: float = -math.inf
    problem: str | None = "not asked yet"
    checked: bool = False
    check_at: float = 0.0


@dataclass(eq=False)
class Replicas:
    """The replicas of one primary.

    Now and then the primary is asked for its position in the write-ahead log. A replica that has replayed up to that
    position has every write that was acknowledged before the question. So the age of what a replica shows is known by
    one clock, that of this machine, and the position of a write need not be asked.

    `staleness` is the greatest age in seconds of what a replica shows; `check` passes before its first use.
    """

    primary: Probe
    replicas: Sequence[Replica]
    _: KW_ONLY
    staleness: float
    check: Check
    writes: LastWrites = field(default_factory=LastWrites)

    def __post_init__(self) -> None:
        self._place: tuple[int, str] | None = None
        self._positions: deque[tuple[float, int]] = deque(maxlen=math.ceil(self.staleness / INTERVAL) + 1)
        """Times, and the position of the primary at or after each of them."""

    def choose(self, tenant_id: UUID) -> Replica | None:
        """The least used replica that has all writes of the tenant, as far as this machine's processes made them."""
        written, oldest = self.writes.at(tenant_id), time.monotonic() - self.staleness
        fit = [r for r in self.replicas if r.problem is None and r.covers > max(written, oldest)]
        return min(fit, key=lambda r: r.database.pool_use.in_use, default=None)

    async def reading(self, tenant_id: UUID, read: Callable[[], Awaitable[Result]]) -> Result:
        """Run work that reads from `current_replica`; once more, from the primary, if the replica fails."""
        replica = self.choose(tenant_id)
        READS.labels("primary" if replica is None else "replica").inc()
        if replica is None:
            return await read()
        chosen = _reader.set(replica)
        try:
            return await read()
        except (DatabaseUnavailable, asyncpg.PostgresError) as error:
            READS.labels("failed").inc()
            self.leave_out(replica, f"a read failed ({type(error.__cause__ or error).__name__})")
        finally:
            _reader.reset(chosen)
        return await read()

    def note_write(self, tenant_id: UUID) -> None:
        """A write to the tenant was acknowledged, or may have been made."""
        self.writes.note(tenant_id)

    def leave_out(self, replica: Replica, reason: str) -> None:
        """Use the replica no more until it answers again."""
        replica.covers = -math.inf
        if replica.problem != reason:
            replica.problem = reason
            log.warning("replica left out", extra={"replica": replica.name, "reason": reason})

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Check all servers while the block runs."""
        watching = start_background(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            for probe in (self.primary, *(replica.probe for replica in self.replicas)):
                probe.close()
            for replica in self.replicas:
                await replica.database.close()

    async def _watch(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(INTERVAL)

    async def look(self) -> None:
        """Ask the primary, and then the replicas, for their positions."""
        asked = time.monotonic()
        with suppress(*AWAY, asyncpg.PostgresError):
            answer = await self.primary.ask()
            if not answer.replays and answer.position is not None:
                self._place = answer.place
                self._positions.append((asked, answer.position))
        await asyncio.gather(*[self._look_at(replica) for replica in self.replicas])

    async def _look_at(self, replica: Replica) -> None:
        try:
            answer = await replica.probe.ask()
            reason = await self._find_reason(replica, answer)
        except (*AWAY, asyncpg.PostgresError) as error:
            self.leave_out(replica, f"it does not answer ({type(error).__name__})")
            return
        if reason is not None:
            self.leave_out(replica, reason)
            return
        position = answer.position or 0
        replica.covers = max((at for at, reached in self._positions if reached <= position), default=-math.inf)
        if replica.covers < time.monotonic() - self.staleness:
            if self._place is not None:
                self.leave_out(replica, f"it is more than {self.staleness:g} s behind")
        elif replica.problem is not None:
            replica.problem = None
            log.info("replica serves reads", extra={"replica": replica.name})

    async def _find_reason(self, replica: Replica, answer: Answer) -> str | None:
        if not answer.replays:
            return "it is not a replica"
        if self._place is None:
            return "the primary has not answered yet"
        if answer.place != self._place:
            return "it is not a replica of this primary"
        if not replica.checked:
            if time.monotonic() < replica.check_at:
                return replica.problem
            try:
                await self.check(replica.database.dsn)
            except ConfigurationError as error:
                replica.check_at = time.monotonic() + CHECK_AGAIN
                return error.problem
            replica.checked = True
        return None
