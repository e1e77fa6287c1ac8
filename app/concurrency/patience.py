"""How long to wait for work that makes progress."""

import math
import time
from collections.abc import Callable

POLL_SECONDS = 0.25
"""Interval between looks at the progress."""

STALLED_SECONDS = 60.0
"""Seconds without progress after which a wait is worth a remark."""


class Patience:
    """The limit of a wait: it ends `still` seconds after the last progress.

    `tell` is called once, after STALLED_SECONDS without any.
    """

    def __init__(self, still: float = math.inf, tell: Callable[[], object] | None = None) -> None:
        self._still = still
        self._tell = tell
        self._least = math.inf
        self._since = time.monotonic()

    def is_over(self, left: float) -> bool:
        """Check with the remaining work. Only a new minimum is progress: postponed jobs start again."""
        now = time.monotonic()
        if left < self._least:
            self._least, self._since = left, now
            return False
        waited = now - self._since
        if waited >= self._still:
            return True
        if self._tell is not None and waited > STALLED_SECONDS:
            self._tell()
            self._tell = None
        return False
