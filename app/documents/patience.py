"""Limit processor time: of a library call that cannot be interrupted otherwise, and of a file with many pages."""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LAYOUT_SHARE = 0.6
"""Share of the time for a file; the rest of a longer one is read without layout, in a tenth of the time."""
_READING_SHARE = 0.85
"""Share of the time for a file after which no further page is read; the rest is for writing what was read."""
_RESERVE = 1.5
"""Times the time for opening the pages that remain: they are also read and written."""
_SURE = 20
"""Pages from which the time of the others is estimated; fewer if they took a share of the time."""
_FEWEST = 5
_SURE_SHARE = 0.25
_HOPELESS = 2.0
"""Times the time for a file: some pages take longer than others."""
_PICTURES_SHARE = 0.7
"""Share of the time of a process after which no picture is looked at: an archive can have many files with pictures."""

_seconds = math.inf


def allow_ending(seconds: float) -> None:
    """Let `limited_to` end this process, which has so much processor time; its parent reads the reason from the
    signal."""
    global _seconds
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    _seconds = seconds


def is_late() -> bool:
    """Whether this process has no time for what can be left out."""
    return time.process_time() > _PICTURES_SHARE * _seconds


@contextmanager
def limited_to(seconds: float) -> Iterator[None]:
    """End the process with SIGPROF if the block takes more processor time, where that is allowed."""
    if _seconds == math.inf:
        yield
        return
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class Pace:
    """Tells by the pages that were opened whether the others can be read in `seconds` of processor time for the
    file."""

    def __init__(self, pages: int, seconds: float, clock: Callable[[], float] = time.process_time) -> None:
        self._pages, self._seconds = pages, seconds
        self._clock = clock
        self._began = clock()
        self._opened = 0.0

    def allows_layout(self, index: int) -> bool:
        """Whether there is time for the layout of page `index`, from 0."""
        elapsed = self._clock() - self._began
        return elapsed + _RESERVE * self._estimate(index) < _LAYOUT_SHARE * self._seconds

    def allows_reading(self) -> bool:
        """Whether there is time for another page."""
        return self._clock() - self._began <= _READING_SHARE * self._seconds

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Measure the opening of a page."""
        before = self._clock()
        yield
        self._opened += self._clock() - before

    def is_hopeless(self, index: int) -> bool:
        """Whether the pages until `index` show that all of them take far too long."""
        elapsed = self._clock() - self._began
        sure = index >= _SURE or (index >= _FEWEST and elapsed > _SURE_SHARE * self._seconds)
        return sure and elapsed + self._estimate(index + 1) > _HOPELESS * self._seconds

    def _estimate(self, index: int) -> float:
        """Seconds for opening the pages from `index` on."""
        return self._opened / max(1, index) * (self._pages - index)
