"""Limit processor time: of a library call that cannot be interrupted otherwise, and of a file with many pages."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.errors import UnreadableDocument

_LAYOUT_SHARE = 0.6
"""Share of the time for a file; the rest of a longer one is read without layout, in a tenth of the time."""
_RESERVE = 1.5
"""Times the time for opening the pages that remain: they are also read and written."""
_SURE = 20
"""Pages from which the time of the others is estimated; fewer if they took a share of the time."""
_FEWEST = 5
_SURE_SHARE = 0.25
_HOPELESS = 2.0
"""Times the time for a file: some pages take longer than others."""

_allowed = False


def allow_ending() -> None:
    """Let `limited_to` end this process; its parent reads the reason from the signal."""
    global _allowed
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    _allowed = True


@contextmanager
def limited_to(seconds: float) -> Iterator[None]:
    """End the process with SIGPROF if the block takes more processor time, where that is allowed."""
    if not _allowed:
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

    @contextmanager
    def opening(self, index: int) -> Iterator[None]:
        """Measure the opening of page `index`. Raises UnreadableDocument when the pages take far too long."""
        before = self._clock()
        yield
        now = self._clock()
        self._opened += now - before
        elapsed = now - self._began
        sure = index >= _SURE or (index >= _FEWEST and elapsed > _SURE_SHARE * self._seconds)
        if sure and elapsed + self._estimate(index + 1) > _HOPELESS * self._seconds:
            raise UnreadableDocument(
                f"the file takes more than {self._seconds:g} s to read: its {self._pages:,} pages draw too much"
            )

    def _estimate(self, index: int) -> float:
        """Seconds for opening the pages from `index` on."""
        return self._opened / max(1, index) * (self._pages - index)
