"""Order the pieces of a page: column after column, between pieces that span them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from app.documents.readers.pdf.lines import Piece, find_rows
from app.documents.readers.pdf.tables import Table

Item = Piece | Table

_MAX_DEPTH = 4
_LEAST_LINES = 4
_LEAST_GUTTER = 6.0
_MOST_CROSSING = 0.5
"""Pieces that span the columns, for each piece of the smaller column."""
_WORDS_OF_PROSE = 3.5
_FULL_LINE = 0.55
_MANY_LINES = 8
_ALIGNED = 0.5


def order_items(items: Sequence[Item], depth: int = 0) -> Iterator[list[Item]]:
    """Regions of one column each, in reading order; within a region, lines are in order."""
    gutter = _find_gutter(items) if depth < _MAX_DEPTH and len(items) >= 2 * _LEAST_LINES else None
    if gutter is None:
        yield list(items)
        return
    left: list[Item] = []
    right: list[Item] = []
    for item in sorted(items, key=lambda item: -item.y):
        if item.x1 <= gutter + 1:
            left.append(item)
        elif item.x0 >= gutter - 1:
            right.append(item)
        else:
            yield from _order_band(left, right, depth)
            left, right = [], []
            yield [item]
    yield from _order_band(left, right, depth)


def join_regions(regions: Iterator[list[Item]]) -> Iterator[list[Item]]:
    """Join successive regions that are single lines: they are text across the columns."""
    waiting: list[Item] = []
    for region in regions:
        if len(region) == 1:
            waiting.extend(region)
            continue
        if waiting:
            yield waiting
            waiting = []
        yield region
    if waiting:
        yield waiting


def _order_band(left: Sequence[Item], right: Sequence[Item], depth: int) -> Iterator[list[Item]]:
    for side in (left, right):
        if side:
            yield from order_items(side, depth + 1)


def _find_gutter(items: Sequence[Item]) -> float | None:
    """Find a vertical band of white between two columns of text; None if the text has one column."""
    first, last = min(item.x0 for item in items), max(item.x1 for item in items)
    width = int(last - first) + 2
    if not 80 < width < 20_000:
        return None
    changes = [0] * (width + 2)
    for item in items:
        changes[int(item.x0 - first)] += 1
        changes[int(item.x1 - first) + 1] -= 1
    cover: list[int] = []
    count = 0
    for change in changes[:width]:
        count += change
        cover.append(count)
    for start, end in _list_valleys(cover, len(items)):
        gutter = first + (start + end) / 2
        left = [item for item in items if item.x1 <= gutter + 1]
        right = [item for item in items if item.x0 >= gutter - 1]
        crossing = len(items) - len(left) - len(right)
        fewer = min(len(left), len(right))
        if fewer < _LEAST_LINES or crossing > _MOST_CROSSING * max(fewer, 6):
            continue
        if _are_columns(left, right):
            return gutter
    return None


def _list_valleys(cover: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Bands that few pieces cross, those crossed by the fewest first."""
    valleys: list[tuple[int, int, int]] = []
    for level in sorted({min(cover[len(cover) // 8 : -len(cover) // 8] or [0]), 0, count // 12, count // 5}):
        start = None
        for place, crossing in enumerate(cover):
            if crossing <= level:
                start = place if start is None else start
            elif start is not None:
                if start > 0 and place - start >= _LEAST_GUTTER:
                    valleys.append((level, start, place))
                start = None
    valleys.sort(key=lambda valley: (valley[0], valley[1] - valley[2]))
    seen: list[tuple[int, int]] = []
    for _, start, end in valleys:
        if not any(start < other_end and other_start < end for other_start, other_end in seen):
            seen.append((start, end))
    return seen[:6]


def _are_columns(left: Sequence[Item], right: Sequence[Item]) -> bool:
    """Whether two sides are columns of text, not columns of a table."""
    sides = [find_rows([item for item in side if isinstance(item, Piece)]) for side in (left, right)]
    if min(map(len, sides)) < _LEAST_LINES:
        return False
    if all(map(_is_prose, sides)):
        return True
    if min(map(len, sides)) < _MANY_LINES:
        return False
    levels = [[row[0].y for row in side] for side in sides]
    shorter, longer = sorted(levels, key=len)
    span = max(longer[0] - longer[-1], 1)
    if (shorter[0] - shorter[-1]) < 0.5 * span:
        return False
    aligned = sum(1 for y in shorter if any(abs(y - other) < 1 for other in longer))
    return aligned < _ALIGNED * len(shorter)


def _is_prose(rows: Sequence[list[Piece]]) -> bool:
    first = min(row[0].x0 for row in rows)
    width = max(row[-1].x1 for row in rows) - first
    words = sum(len(piece.words) for row in rows for piece in row)
    filled = median(row[-1].x1 - row[0].x0 for row in rows)
    return words >= _WORDS_OF_PROSE * len(rows) and filled >= _FULL_LINE * width and width > 60
