"""Callers that may read many entries of a tenant, as a search has counted: counting takes as long as a search."""

from __future__ import annotations

import time
from collections.abc import Callable

WIDE_KEPT_SECONDS = 60.0
MOST = 1_000
"""Callers of one tenant that are remembered."""


class WideCallers:
    """Remembers the principals of such callers for a minute. Only the way to search depends on it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[tuple[str, ...], float] = {}

    def add(self, principals: tuple[str, ...]) -> None:
        """Remember a caller."""
        if len(self._until) >= MOST:
            self._until.clear()
        self._until[principals] = self._clock() + WIDE_KEPT_SECONDS

    def __contains__(self, principals: tuple[str, ...]) -> bool:
        return self._until.get(principals, 0.0) > self._clock()
