"""Detect that the database has failed, as opposed to a statement; raise and log the outage."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import asyncpg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.concurrency.background import start_background
from app.errors import DatabaseUnavailable
from app.telemetry.metrics import DATABASE_ERRORS

log = logging.getLogger(__name__)

LOST = (
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InternalClientError,
)
"""Failures after which a connection ends."""

AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    *LOST,
    asyncpg.InsufficientResourcesError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InterfaceError,
    PoolTimeout,
    DBAPIError,
)
"""Failures of the database, not of the statement: the caller may try again."""

_LOGIN_REFUSED = re.compile(r"FATAL:\s+(?:role|user|database|password|permission|no pg_hba)")


def is_outage(error: BaseException) -> bool:
    """Whether the database has failed, and not the statement; OSError and ValueError come from elsewhere.

    A node of a cluster that may not log in to another one is up: the statement should not have left the node.
    """
    if isinstance(error, asyncpg.PostgresConnectionError) and _LOGIN_REFUSED.search(str(error)):
        return False
    return isinstance(error, AWAY) and not isinstance(error, ValueError | OSError)


BUSY = "every database connection is in use at the moment"

# The first match applies. Errors of other classes mean that the connection is lost or cannot be opened.
REASONS: tuple[tuple[type[BaseException], str, str, float], ...] = (
    (asyncpg.DiskFullError, "disk_full", "the database has no disk space left", 30.0),
    (asyncpg.TooManyConnectionsError, "connections", "the database accepts no more connections at the moment", 1.0),
    (asyncpg.InsufficientResourcesError, "memory", "the database has not enough memory for this at the moment", 5.0),
    (asyncpg.ReadOnlySQLTransactionError, "read_only", "the database is read-only at the moment", 5.0),
    (asyncpg.DeadlockDetectedError, "deadlock", "the request conflicted with another transaction", 1.0),
    (asyncpg.LockNotAvailableError, "locked", "another transaction holds locks on the same rows", 1.0),
    (asyncpg.QueryCanceledError, "too_slow", "the database took too long to answer", 5.0),
)
NODE_DOWN = ("node", "a node of the database's cluster is not reachable at the moment", 1.0)
LOGIN_REFUSED = ("login", "the database refuses the login of the service", 5.0)
UNREACHABLE = "unreachable"
_TOLD = {name: reason for _, name, reason, _ in REASONS} | {n: reason for n, reason, _ in (NODE_DOWN, LOGIN_REFUSED)}
for _name in (*_TOLD, UNREACHABLE):
    DATABASE_ERRORS.labels(_name)


def _find_reason(error: BaseException) -> tuple[str, str, float] | None:
    # A lost connection has no severity: here, the coordinator reports that it does not reach a node.
    if isinstance(error, asyncpg.PostgresConnectionError) and error.severity_en == "ERROR":
        return NODE_DOWN
    # An answer that is not an outage comes while connecting: a wrong password, a role without rights, no such database.
    if isinstance(error, asyncpg.PostgresError) and not isinstance(error, AWAY):
        return LOGIN_REFUSED
    return next(((name, reason, after) for kind, name, reason, after in REASONS if isinstance(error, kind)), None)


PATIENCE = 1.5
"""Seconds that callers wait for a response of a suspect database, so that a 503 is sent within 2 s."""

QUIET_SECONDS = 60.0
"""After this long without an error of a kind, such as a full disk, its outage counts as over."""

T = TypeVar("T")


@dataclass(slots=True)
class _Spell:
    """An outage of one kind: when its first and its latest error came, and the number of refused callers."""

    since: float
    latest: float
    refused: int = 1


class _Unreachable(DatabaseUnavailable):
    """The database cannot be reached at all."""


class Outage:
    """Whether the database can be reached; logs one error when it goes down and one line when it is back.

    Errors of the database itself, such as a full disk, are logged in the same way: the first of a kind with its stack,
    then one line when QUIET_SECONDS have passed without another.

    A lost connection, or a failed attempt to connect, makes the database suspect. Any answer to a later query ends
    the doubt. Until then one task probes the database, with the full connection timeout, and callers wait for the
    result, for up to PATIENCE from the start of the probe. Calls to a database that is slow to connect are refused only
    until the probe succeeds.
    """

    def __init__(
        self, ask: Callable[[], Awaitable[object]], cut: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`ask` queries the database and calls `record_answer`; raises DatabaseUnavailable.

        `cut` closes all connections; it is called when the probe timed out and no connection received an answer.
        """
        self._ask = ask
        self._cut = cut
        self._clock = clock
        self._suspected: float | None = None
        self._answered = -float("inf")
        self._spells: dict[str, _Spell] = {}
        self._asking: asyncio.Task[None] | None = None
        self._asked = 0.0
        self._answer: asyncio.Future[bool] | None = None
        self._limits: set[asyncio.Timeout] = set()

    @property
    def is_suspect(self) -> bool:
        """Whether a connection was lost, or could not be opened, and no query was answered since."""
        return self._suspected is not None

    def mark_suspect(self) -> None:
        """Mark the database as suspect; the next caller starts a probe."""
        self._suspected = self._clock()
        if self._limits:
            asyncio.get_running_loop().call_later(PATIENCE, self._end_attempts, frozenset(self._limits))

    def _end_attempts(self, limits: frozenset[asyncio.Timeout]) -> None:
        for limit in limits & self._limits:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def limit(self, deadline: float) -> AsyncIterator[None]:
        """A time limit, by the loop's clock, for an attempt to use a connection. Raises TimeoutError.

        If the database becomes suspect during the attempt, the limit is PATIENCE from then, even if the database is
        back by that time: the connection may be one of those that were lost.
        """
        async with asyncio.timeout_at(deadline) as limit:
            if self._asking is None or asyncio.current_task() is not self._asking:
                self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)

    def record_answer(self, asked: float) -> None:
        """Record an answer to a query sent at the time `asked`."""
        self._answered = self._clock()
        if self._spells:
            self._end_quiet()
        if self._suspected is None or asked < self._suspected:
            return
        self._suspected = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(True)
        if self._asking is not None and self._asking is not asyncio.current_task():
            self._asking.cancel()
        if (spell := self._spells.pop(UNREACHABLE, None)) is not None:
            seconds = round(self._clock() - spell.since, 3)
            log.warning("the database is back", extra={"seconds": seconds, "refused": spell.refused})

    async def await_answer(self, answer: Awaitable[T]) -> T:
        """Wait for the database's answer on one of its connections.

        Raises DatabaseUnavailable when the connection is lost or silent, and the errors of the driver.
        """
        asked = self._clock()
        try:
            heard = await answer
        except OSError as error:  # from the socket; includes the TimeoutError of a time limit
            raise self.refuse(error) from error
        self.record_answer(asked)
        return heard

    async def wait_until_reachable(self) -> None:
        """Wait while the database is suspect. Raises DatabaseUnavailable when it does not answer."""
        if self._suspected is None or asyncio.current_task() is self._asking:
            return
        if not await self.answers(PATIENCE):
            raise self.refuse(TimeoutError())

    async def answers(self, patience: float) -> bool:
        """Whether the database answers within `patience` seconds, counted from the start of the current probe."""
        answer = self._start_asking()
        left = self._asked + patience - self._clock()
        await asyncio.wait((answer,), timeout=max(left, 0.0))
        return answer.done() and answer.result()

    def has_answered_since(self, moment: float) -> bool:
        """Whether a query was answered after this time."""
        return self._answered >= moment

    def ask_if_silent(self, since: float) -> None:
        """Probe the database unless it has answered after the time `since`; this does not make it suspect."""
        if not self.has_answered_since(since):
            self._start_asking()

    def is_silent(self, since: float) -> bool:
        """Whether the database is being probed and has not answered since then."""
        return not self.has_answered_since(since) and self._answer is not None and not self._answer.done()

    def _start_asking(self) -> asyncio.Future[bool]:
        if self._answer is None or self._answer.done():
            self._answer = asyncio.get_running_loop().create_future()
            self._asked = self._clock()
            self._asking = start_background(self._run(self._answer))
        return self._answer

    async def _run(self, answer: asyncio.Future[bool]) -> None:
        began, there = self._clock(), False
        try:
            await self._ask()
            there = True
        except _Unreachable as error:
            if isinstance(error.__cause__, TimeoutError) and self._answered < began:
                self._cut()
        except (DatabaseUnavailable, asyncpg.PostgresError):
            there = True  # an error from the database itself: it is up, and callers get that error
        except Exception:
            log.exception("the database could not be queried")
        finally:
            if not answer.done():
                answer.set_result(there)

    def refuse(self, error: BaseException) -> DatabaseUnavailable:
        """Record a failure; returns the error for the caller."""
        cause = error
        if isinstance(error, DBAPIError) and error.orig is not None:
            cause = error.orig.__cause__ or error.orig
        if (found := _find_reason(cause)) is not None:
            name, reason, retry_after = found
            if self._begins(name):
                log.error("database error: %s", reason, exc_info=error)
            self._answered = self._clock()
            return DatabaseUnavailable(reason, retry_after=retry_after)
        if self._suspected is None:
            self.mark_suspect()
        if self._begins(UNREACHABLE):
            log.error("the database is down", exc_info=error, extra={"error": type(cause).__name__})
        return _Unreachable()

    def _begins(self, name: str) -> bool:
        """Count an error; whether it is the first of its outage."""
        DATABASE_ERRORS.labels(name).inc()
        self._end_quiet()
        now = self._clock()
        if (spell := self._spells.get(name)) is None:
            self._spells[name] = _Spell(now, now)
            return True
        spell.latest = now
        spell.refused += 1
        return False

    def _end_quiet(self) -> None:
        """End the outages that had no error for QUIET_SECONDS; only an answer ends that of an unreachable database."""
        now = self._clock()
        for name, reason in _TOLD.items():
            if name in self._spells and now - self._spells[name].latest > QUIET_SECONDS:
                spell = self._spells.pop(name)
                seconds = round(spell.latest - spell.since, 3)
                log.warning(
                    "the database error is over: %s", reason, extra={"seconds": seconds, "refused": spell.refused}
                )

    async def close(self) -> None:
        """Stop probing."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait((self._asking,))
