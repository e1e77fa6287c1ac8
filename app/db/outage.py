"""Failures of the database, told apart from those of a statement: what callers hear, and what is logged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

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


class Outage:
    """Whether the database can be reached; logs one line when it goes away and one when it is back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        self._refused = 0

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
        return DatabaseUnavailable()

    def end(self) -> None:
        """Note that a transaction was opened."""
        if self._since is not None:
            seconds = round(self._clock() - self._since, 3)
            self._since, refused, self._refused = None, self._refused, 0
            log.warning("the database is back", extra={"seconds": seconds, "refused": refused})
