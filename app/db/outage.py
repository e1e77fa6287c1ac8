"""Failures of the database, told apart from those of a statement: what callers hear, and what is logged."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

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
"""Seconds that a caller waits for a connection once the database seems to be away: the 503 comes within 2 s. On a busy
machine it takes longer than that to make one, so it may, while nothing is wrong."""

QUICK = 0.25
"""Seconds: a database that refuses as soon as that is asked again by the next caller; it costs nobody much."""

LONGEST_PAUSE = 1.0
"""Seconds after which a database that was silent is asked again."""

Opened = TypeVar("Opened")


class _Away(DatabaseUnavailable):
    """The database cannot be reached at all."""


class Outage:
    """Whether the database can be reached; logs one line when it goes away and one when it is back.

    While it is away one caller at a time tries to reach it, and the others hear what came of that: none of them waits
    longer than one try takes.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        self._refused = 0
        self._reached = -float("inf")
        self._ask_again: float | None = None
        self._asking = asyncio.Lock()

    async def attempt(self, open_: Callable[[], Awaitable[Opened]]) -> Opened:
        """What `open_` opens, or at once the refusal of whoever tried meanwhile, or a moment ago.

        Raises DatabaseUnavailable.
        """
        came = self._clock()
        if self._ask_again is not None:
            async with self._asking:
                if self._ask_again is not None:
                    if came < self._ask_again:
                        self._refused += 1
                        raise _Away
                    return await self._try(open_)
        return await self._try(open_)

    def patience(self, ordinary: float) -> float:
        """Seconds that making a connection may take, `ordinary` while nothing is known to be wrong."""
        return ordinary if self._since is None else min(ordinary, PATIENCE)

    async def _try(self, open_: Callable[[], Awaitable[Opened]]) -> Opened:
        began = self._clock()
        try:
            opened = await open_()
        except _Away:
            # A single connection that fails while others come about is no reason to turn callers away.
            if self._reached < began:
                now = self._clock()
                took = now - began
                self._ask_again = now + (min(took, LONGEST_PAUSE) if took > QUICK else 0.0)
            raise
        self._end()
        return opened

    def refuse(self, error: BaseException) -> DatabaseUnavailable:
        """Note a failure; returns what the caller is told of it."""
        if isinstance(error, DBAPIError) and error.orig is not None:
            error = error.orig.__cause__ or error.orig
        for kind, reason, retry_after in REASONS:
            if isinstance(error, kind):
                log.error("database error: %s", reason, exc_info=error)
                return DatabaseUnavailable(reason, retry_after=retry_after)
        if self._since is None:
            self._since = self._clock()
            log.warning("the database is away", extra={"error": type(error).__name__})
        self._refused += 1
        return _Away()

    def _end(self) -> None:
        self._reached, self._ask_again = self._clock(), None
        if self._since is not None:
            seconds = round(self._clock() - self._since, 3)
            self._since, refused, self._refused = None, self._refused, 0
            log.warning("the database is back", extra={"seconds": seconds, "refused": refused})
