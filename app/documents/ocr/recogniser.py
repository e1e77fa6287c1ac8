"""Recognises pages within limits."""

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from app.documents.ocr.access import Draw, Image, Picture
from app.documents.ocr.layout import Found, arrange, straighten
from app.documents.parsed import ParseLimits
from app.errors import UnreadableDocument

LEAST_SCORE = 0.5
"""Lines below are dropped. On bad scans, a higher bound costs more text than the errors that it avoids."""
_SHORT = 2
_LEAST_SHORT_SCORE = 0.8
"""Least score of a line of one or two characters: drawings contain shapes that look like letters."""


class Engine(Protocol):
    """Finds and reads lines of text."""

    def read(self, image: Image, is_over: Callable[[], bool]) -> tuple[list[Found], bool]:
        """The lines on an image, and whether they are all; stops when `is_over`."""


class Recogniser:
    """Recognises pages until the time or the number of pages of a file is used up."""

    def __init__(self, engine: Engine, limits: ParseLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._limits = limits
        self._clock = clock
        self._pages = 0
        self._end: float | None = None

    def recognise(self, draw: Draw) -> Picture | None:
        """Draw a page and recognise it; None if the limits are used up or the page cannot be recognised. Raises
        UnreadableDocument for a reason that the drawer of the page knows."""
        now = self._clock()
        if self._end is None:
            self._end = now + self._limits.ocr_seconds
        if now >= self._end or self._pages >= self._limits.ocr_pages:
            return None
        self._pages += 1
        end = min(self._end, now + self._limits.ocr_page_seconds)
        try:
            found, complete = self._engine.read(np.ascontiguousarray(draw()), lambda: self._clock() >= end)
        except UnreadableDocument:
            raise
        except Exception:
            # A hostile image can make a library raise any exception; the other pages are read.
            return None
        kept = [line for line in found if _is_certain(line)]
        return Picture(arrange(straighten(kept)), complete)


def _is_certain(line: Found) -> bool:
    length = len(line.text.strip())
    return length > 0 and line.score >= (_LEAST_SHORT_SCORE if length <= _SHORT else LEAST_SCORE)
