"""Failures of the database, told apart from those of a statement: what callers hear, and what is logged."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import asyncpg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.concurrency.background import start_background
from app.errors import DatabaseUnavailable

log = logging.getLogger("app.db")

AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InsufficientResourcesError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    PoolTimeout,
    DBAPIError,
)
"""Failures of the database, not of the statement: the caller may try again."""

BUSY = "every database connection is in use at the moment"

# The first that fits; what is in none of these is a connection that is gone or cannot be made.
REASONS: tuple[tuple[type[BaseException], str, float], ...] = (
    (asyncpg.DiskFullError, "the database has no room left", 30.0),
    (asyncpg.TooManyConnectionsError, "the database takes no more connections at the moment", 1.0),
    (asyncpg.InsufficientResourcesError, "the database has too little memory for this at the moment", 5.0),
    (asyncpg.ReadOnlySQLTransactionError, "the database takes no changes at the moment", 5.0),
    (asyncpg.DeadlockDetectedError, "the work collided with that of others", 1.0),
    (asyncpg.LockNotAvailableError, "others are at work on the same rows", 1.0),
    (asyncpg.QueryCanceledError, "the database took too long over this", 5.0),
)


PATIENCE = 1.5
"""Seconds that callers wait for a sign of life once something speaks against the database: the 503 comes within 2 s."""

T = TypeVar("T")


class _Away(DatabaseUnavailable):
    """The database cannot be reached at all."""


class Outage:
    """Whether the database can be reached; logs one line when it goes away and one when it is back.

    A lost connection, or one that cannot be made, makes it doubtful, and any answer to what was asked later ends the
    doubt. Meanwhile one task asks it, with all the time that it takes to connect, and callers wait for what comes of
    that, for PATIENCE from its beginning: a database that is slow to connect to is refused no longer than it takes.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[object]],
        cut: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ask` has the database say something, and calls `hear`; raises DatabaseUnavailable.

        `cut` ends all connections, when there has been no word on any of them while the asking ran out of time.
        """
        self._ask = ask
        self._cut = cut
        self._clock = clock
        self._doubted: float | None = None
        self._heard = -float("inf")
        self._since: float | None = None
        self._refused = 0
        self._asking: asyncio.Task[None] | None = None
        self._asked = 0.0
        self._answer: asyncio.Future[bool] | None = None
        self._limits: set[asyncio.Timeout] = set()

    def doubt(self) -> None:
        """Something speaks against the database; the next caller has it asked."""
        self._doubted = self._clock()
        if self._limits:
            asyncio.get_running_loop().call_later(PATIENCE, self._end_attempts, frozenset(self._limits))

    def _end_attempts(self, limits: frozenset[asyncio.Timeout]) -> None:
        for limit in limits & self._limits:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def limit(self, deadline: float) -> AsyncIterator[None]:
        """A time limit, by the clock of the loop, for an attempt to use a connection. Raises TimeoutError.

        When the database comes into doubt meanwhile it ends PATIENCE later, even if the database is back by then: the
        connection may be one of those that were lost.
        """
        async with asyncio.timeout_at(deadline) as limit:
            if asyncio.current_task() is not self._asking:
                self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)

    def hear(self, asked: float) -> None:
        """Note an answer to something that was asked at the time `asked`."""
        self._heard = self._clock()
        if self._doubted is None or asked < self._doubted:
            return
        self._doubted = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(True)
        if self._asking is not None and self._asking is not asyncio.current_task():
            self._asking.cancel()
        if self._since is not None:
            seconds = round(self._clock() - self._since, 3)
            self._since, refused, self._refused = None, self._refused, 0
            log.warning("the database is back", extra={"seconds": seconds, "refused": refused})

    async def listen(self, answer: Awaitable[T]) -> T:
        """What the database answers on one of its connections.

        Raises DatabaseUnavailable when the connection is lost or silent, and what the driver raises.
        """
        asked = self._clock()
        try:
            heard = await answer
        except OSError as error:  # of the socket; a time limit's TimeoutError is one too
            raise self.refuse(error) from error
        self.hear(asked)
        return heard

    async def settle(self) -> None:
        """Wait while the database is doubtful. Raises DatabaseUnavailable when it says nothing."""
        if self._doubted is None or asyncio.current_task() is self._asking:
            return
        if not await self.answers(PATIENCE):
            raise self.refuse(TimeoutError())

    async def answers(self, patience: float) -> bool:
        """Whether the database answers within `patience` seconds, of which those count that it has been asked for."""
        answer = self._start_asking()
        left = self._asked + patience - self._clock()
        await asyncio.wait((answer,), timeout=max(left, 0.0))
        return answer.done() and answer.result()

    def ask_if_silent(self, since: float) -> None:
        """Have the database asked unless it said something after the time `since`; it is not doubtful for that."""
        if self._heard < since:
            self._start_asking()

    def is_silent(self, since: float) -> bool:
        """Whether the database, being asked, has said nothing since then."""
        return self._heard < since and self._answer is not None and not self._answer.done()

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
        except _Away as error:
            if isinstance(error.__cause__, TimeoutError) and self._heard < began:
                self._cut()
        except (DatabaseUnavailable, asyncpg.PostgresError):
            there = True  # its own words, though not those that were hoped for: callers shall hear them
        except Exception:
            log.exception("the database could not be queried")
        finally:
            if not answer.done():
                answer.set_result(there)

    def refuse(self, error: BaseException) -> DatabaseUnavailable:
        """Note a failure; returns what the caller is told of it."""
        if isinstance(error, DBAPIError) and error.orig is not None:
            error = error.orig.__cause__ or error.orig
        for kind, reason, retry_after in REASONS:
            if isinstance(error, kind):
                self._heard = self._clock()
                log.error("database error: %s", reason, exc_info=error)
                return DatabaseUnavailable(reason, retry_after=retry_after)
        if self._doubted is None:
            self.doubt()
        if self._since is None:
            self._since = self._clock()
            log.warning("the database is down", extra={"error": type(error).__name__})
        self._refused += 1
        return _Away()

    async def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait((self._asking,))
