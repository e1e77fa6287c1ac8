"""Plain text on one line, with a map from each place in it to its source."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

_PLACE, _ORIGIN = itemgetter(0), itemgetter(1)

SPACE, BREAK = 1, 2
"""Between two pieces: a space; or a middle dot, unless the first piece ends in a punctuation mark."""

_STOPS = frozenset(".:;,!?…–—·。、，；：！？")
_ODD_SPACE = re.compile(r"[^\S \n]")
_RUN = re.compile(r"\S+(?: \S+)*")

DELIMITER = re.compile(r"^[ \t]*\|?(?:[ \t:]*-+[ \t:]*\|)+[ \t:-]*$", re.MULTILINE)
"""The line below the header of a table of Markdown rows, also without its beginning."""


Piece: TypeAlias = tuple[int, int, int]
"""A piece of a text: where it starts in the text, where it starts in the source, and its length."""


@dataclass(frozen=True, slots=True)
class PlainText:
    """A text for reading, and its pieces in order; `is_whole` is false if the end of the source is missing."""

    text: str
    pieces: Sequence[Piece]
    is_whole: bool = True

    def place_of(self, origin: int) -> int:
        """Where a character of the source is in the text; if it is not shown, where the text before it ends."""
        number = bisect_right(self.pieces, origin, key=_ORIGIN) - 1
        if number < 0:
            return 0
        place, start, length = self.pieces[number]
        return place + min(origin - start, length)

    def origin_of(self, place: int) -> int:
        """Where a character of the text is in the source."""
        number = bisect_right(self.pieces, place, key=_PLACE) - 1
        if number < 0:
            return 0
        start, origin, length = self.pieces[number]
        return origin + min(place - start, length)


class Writer:
    """Joins pieces of text in the order of their source, and folds their white space."""

    __slots__ = ("_between", "_length", "_parts", "_pieces")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._pieces: list[Piece] = []
        self._length = 0
        self._between = 0

    def separate(self, between: int) -> None:
        """Put SPACE or BREAK before the next piece."""
        if between > self._between:
            self._between = between

    def write(self, text: str, origin: int) -> None:
        """Add a piece of text that starts at `origin` in the source; its white space is as `unify_spaces` leaves it."""
        if "\n" in text or "  " in text or text.isspace():
            self._write_runs(text, origin)
            return
        if text[:1] == " ":
            text, origin = text[1:], origin + 1
            between = self._between or SPACE
        else:
            between = self._between
        if not text:
            return
        parts = self._parts
        if between and parts:
            joint = " · " if between == BREAK and parts[-1][-1] not in _STOPS else " "
            parts.append(joint)
            self._length += len(joint)
        if text[-1] == " ":
            text, self._between = text[:-1], SPACE
        else:
            self._between = 0
        length = len(text)
        parts.append(text)
        self._pieces.append((self._length, origin, length))
        self._length += length

    def _write_runs(self, text: str, origin: int) -> None:
        end = 0
        for run in _RUN.finditer(text):
            if run.start() > end:
                self.separate(SPACE)
            self.write(run[0], origin + run.start())
            end = run.end()
        if end < len(text):
            self.separate(SPACE)

    def finish(self, *, is_whole: bool = True) -> PlainText:
        """The text so far."""
        return PlainText("".join(self._parts), self._pieces, is_whole)


def unify_spaces(source: str) -> str:
    """The source with a space for each tab, no-break space and other white space except line ends."""
    return _ODD_SPACE.sub(" ", source)


def fold(source: str) -> PlainText:
    """The source itself as one line, without the lines below the headers of tables."""
    writer = Writer()
    end = 0
    for line in DELIMITER.finditer(source) if "-" in source else ():
        writer.write(unify_spaces(source[end : line.start()]).replace("\n", " "), end)
        writer.separate(SPACE)
        end = line.end()
    writer.write(unify_spaces(source[end:]).replace("\n", " "), end)
    return writer.finish()
