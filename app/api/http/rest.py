"""The rest of a body that was answered before all of it came: it is dropped, at a pace, and must come fast enough."""

from __future__ import annotations

from collections.abc import Callable

from app.concurrency.pace import Pace

DROPPED_BYTES = 256 * 1024 * 1024
"""A longer rest ends the connection."""

REST_RATE = 16 * 1024
"""Bytes that must come in a second; time in which the rest waits for its turn does not count."""


class Rest:
    """Counts what is dropped of one body, and the time for which it waited for its turns."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._bytes = self._bytes_before = 0
        self._looked = clock()
        self._waited = 0.0
        """Since the last look."""
        self._since: float | None = None
        """When the wait in progress began, or since when it is counted."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was dropped."""
        return not self._bytes

    def drop(self, length: int) -> bool:
        """Count bytes; returns whether the rest is not too long."""
        self._bytes += length
        return self._bytes <= DROPPED_BYTES

    async def wait(self, pace: Pace, key: str) -> None:
        """Wait for the turn of the next part."""
        self._since = self._clock()
        await pace.wait(key)
        self._count_wait(self._clock())
        self._since = None

    def look(self) -> None:
        """Begin to watch how much comes."""
        self._looked = self._clock()
        self._count_wait(self._looked)
        self._bytes_before, self._waited = self._bytes, 0.0

    def has_come(self) -> bool:
        """Whether enough has come since the last look."""
        now = self._clock()
        self._count_wait(now)
        return self._bytes - self._bytes_before >= REST_RATE * (now - self._looked - self._waited)

    def _count_wait(self, now: float) -> None:
        if self._since is not None:
            self._waited, self._since = self._waited + now - self._since, now
