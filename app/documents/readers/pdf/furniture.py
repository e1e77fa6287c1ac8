"""Running headers, footers and page numbers: lines that stand at the same place on several pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.documents.readers.pdf.lines import Piece, find_rows

_ZONE = 0.15
"""The part of the height of a page, at its top and at its bottom, in which running lines are."""
_MOST_ROWS = 3
_LEAST_PAGES = 3
_FEW_PAGES = 4
_LONGEST = 150
_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b")
_ENDS = re.compile(r"^\D?(\d{1,5})\b|\b(\d{1,5})\D?$")


@dataclass(frozen=True, slots=True)
class _Row:
    pieces: tuple[Piece, ...]
    keys: tuple[tuple[object, ...], ...]
    place: tuple[str, int]
    numbered: bool
    alone: bool


class Furniture:
    """Counts the outer lines of the pages, a batch of pages after the other."""

    def __init__(self, total_pages: int) -> None:
        self._few = total_pages <= _FEW_PAGES
        self._counts: Counter[tuple[object, ...]] = Counter()
        self._places: Counter[tuple[str, int]] = Counter()
        self._pages = 0

    def remove(self, pages: Sequence[tuple[int, float, float, list[Piece]]]) -> list[list[Piece]]:
        """The pieces of each page (index, lower end, height, pieces) without running lines."""
        rows = [list(_list_rows(*page)) for page in pages]
        for sides in rows:
            self._counts.update({key for side in sides for row in side if not row.alone for key in row.keys})
        self._pages += len(pages)
        found = [[self._take(side) for side in sides] for sides in rows]
        for sides in found:
            self._places.update({row.place for side in sides for row in side})
        kept = []
        for (_, _, _, pieces), sides, removed in zip(pages, rows, found, strict=True):
            gone = {id(piece) for side in removed for row in side for piece in row.pieces}
            for side, rows_removed in zip(sides, removed, strict=True):
                rest = side[len(rows_removed) :]
                # The name of a chapter of one page, at the place where all pages have one.
                tagged = any(word.tag for row in rest[:1] for piece in row.pieces for word in piece.words)
                if tagged:
                    continue
                if rest and not rows_removed and 2 * self._places[rest[0].place] > self._pages > _FEW_PAGES:
                    gone.update(id(piece) for piece in rest[0].pieces)
            kept.append([piece for piece in pieces if id(piece) not in gone] if gone else pieces)
        return kept

    def _take(self, side: Sequence[_Row]) -> list[_Row]:
        removed = []
        for row in side:
            least = 2 if self._few and row.numbered else _LEAST_PAGES
            if max((self._counts[key] for key in row.keys), default=0) < least:
                break
            removed.append(row)
        return removed


def _list_rows(index: int, low: float, height: float, pieces: list[Piece]) -> Iterator[list[_Row]]:
    top = find_rows(piece for piece in pieces if piece.y > low + (1 - _ZONE) * height)
    bottom = find_rows(piece for piece in pieces if piece.y < low + _ZONE * height)
    middle = len(pieces) - sum(map(len, top)) - sum(map(len, bottom))
    rows_of_page = len(top) + len(bottom) + middle
    for name, rows in (("top", top[:_MOST_ROWS]), ("bottom", bottom[::-1][:_MOST_ROWS])):
        # A page of nothing else does not prove that a line repeats without being text.
        yield [_describe(name, index, row, place + 1 >= rows_of_page) for place, row in enumerate(rows)]


def _describe(side: str, index: int, row: Sequence[Piece], alone: bool) -> _Row:
    text = " ".join(piece.text for piece in row)
    place = (side, round(row[0].y))
    if len(text) > _LONGEST:
        return _Row(tuple(row), (), place, False, alone)
    keys: list[tuple[object, ...]] = [(place, _NUMBER.sub("#", text.lower()))]
    numbered = _NUMBER.search(text.lower()) is not None
    for match in _ENDS.finditer(text):
        keys.append((place, int(match.group(1) or match.group(2)) - index))
    return _Row(tuple(row), tuple(keys), place, numbered, alone)
