"""Put recognised lines into reading order, with columns, rows and paragraphs."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median

from app.documents.runs import cut_runs

Point = tuple[float, float]

_LONG = 4
"""A line that is this many times as long as high has a reliable angle."""


@dataclass(frozen=True, slots=True)
class Found:
    """A line as it is on the image: corners clockwise from the top left of its text, in pixels; `score` is 0 to 1."""

    corners: tuple[Point, Point, Point, Point]
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line on the straightened page, in pixels from its top left."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    @property
    def height(self) -> float:
        """The height of its box, which is a little larger than the letters."""
        return self.bottom - self.top

    @property
    def width(self) -> float:
        """The width of its box."""
        return self.right - self.left

    @property
    def middle(self) -> float:
        """The height at which its middle lies."""
        return (self.top + self.bottom) / 2


def straighten(found: Iterable[Found]) -> list[Line]:
    """Turn the lines by the usual angle of the long ones, so that all are level."""
    found = list(found)
    sizes = [_size(line.corners) for line in found]
    angles = [_angle(line) for line, (width, height) in zip(found, sizes, strict=True) if width >= _LONG * height]
    angle = median(angles or [0.0])
    cos, sin = math.cos(angle), math.sin(angle)
    lines = []
    for line, (width, height) in zip(found, sizes, strict=True):
        middle_x = sum(x for x, _ in line.corners) / 4
        middle_y = sum(y for _, y in line.corners) / 4
        x, y = middle_x * cos + middle_y * sin, middle_y * cos - middle_x * sin
        lines.append(Line(line.text, x - width / 2, y - height / 2, x + width / 2, y + height / 2))
    return lines


def _angle(line: Found) -> float:
    (left, top), (right, below) = line.corners[:2]
    return math.atan2(below - top, right - left)


def _size(corners: Sequence[Point]) -> tuple[float, float]:
    first, second, third, fourth = corners
    width = (math.dist(first, second) + math.dist(fourth, third)) / 2
    height = (math.dist(first, fourth) + math.dist(second, third)) / 2
    return width, height


# Of a column: its least lines and characters in a usual line, its least share of the block's width, how much of its
# own width its usual line fills, and how much of its height the other column shares. Columns of a table have less.
_LEAST_LINES = 4
_LEAST_CHARACTERS = 15
_LEAST_WIDTH = 0.25
_FILLED = 0.6
_SHARED_HEIGHT = 0.5
_MOST_CROSSING = 0.3
"""The greatest share of a block's lines that goes across the gap between its columns, as headings do."""
_MOST_COLUMNS_WITHIN = 4
"""How often columns are divided again."""
_SAME_ROW = 0.5
"""Lines are in one row if they share this much of the height of the lower one."""
_PARAGRAPH = 1.45
"""A new paragraph begins after a step of more than this many usual ones."""
_OTHER_SIZE = 1.35
"""A line that is this many times as high as the next one is a paragraph of its own."""


def arrange(lines: Sequence[Line]) -> str:
    """The text of a page: a line for each row, and an empty line between paragraphs."""
    return "\n\n".join(_write_block(block) for block in _order(lines, _MOST_COLUMNS_WITHIN))


def _order(lines: Sequence[Line], depth: int) -> Iterator[Sequence[Line]]:
    """Blocks in reading order; each has one column."""
    gap = _find_gap(lines) if depth else None
    if gap is None:
        if lines:
            yield lines
        return
    ordered = sorted(lines, key=lambda item: item.middle)
    for across, band in groupby(ordered, key=lambda line: line.left < gap < line.right):
        found = list(band)
        if across:
            yield found
        else:
            yield from _order([line for line in found if line.right <= gap], depth - 1)
            yield from _order([line for line in found if line.right > gap], depth - 1)


def _find_gap(lines: Sequence[Line], *, several: bool = True) -> float | None:
    """The place between two columns that the fewest lines cross, None for one column or a table; a side can have
    `several` columns itself."""
    if len(lines) < 2 * _LEAST_LINES:
        return None
    width = max(line.right for line in lines) - min(line.left for line in lines)
    step = max(1.0, median(line.height for line in lines) / 2)
    places = {round(line.left / step): line.left - step / 2 for line in lines}
    best: tuple[int, float] | None = None
    for place in places.values():
        left = [line for line in lines if line.right <= place]
        right = [line for line in lines if line.left >= place]
        crossing = len(lines) - len(left) - len(right)
        if crossing > _MOST_CROSSING * len(lines) or (best is not None and best[0] <= crossing):
            continue
        if _stand_together(left, right) and all(
            _is_column(side, width) or (several and _find_gap(side, several=False) is not None)
            for side in (left, right)
        ):
            best = crossing, place
    return None if best is None else best[1]


def _is_column(lines: Sequence[Line], whole: float) -> bool:
    if len(lines) < _LEAST_LINES:
        return False
    width = max(line.right for line in lines) - min(line.left for line in lines)
    return (
        width >= _LEAST_WIDTH * whole
        and median(line.width for line in lines) >= _FILLED * width
        and median(len(line.text) for line in lines) >= _LEAST_CHARACTERS
    )


def _stand_together(left: Sequence[Line], right: Sequence[Line]) -> bool:
    if not left or not right:
        return False
    tops = [min(line.top for line in side) for side in (left, right)]
    bottoms = [max(line.bottom for line in side) for side in (left, right)]
    least = min(bottoms[0] - tops[0], bottoms[1] - tops[1])
    return min(bottoms) - max(tops) >= _SHARED_HEIGHT * least


def _write_block(lines: Sequence[Line]) -> str:
    ordered = sorted(lines, key=lambda item: item.middle)
    rows = list(cut_runs(ordered, lambda row, line: not _is_in_row(row[-1], line)))
    tops = [median(line.middle for line in row) for row in rows]
    heights = [max(line.height for line in row) for row in rows]
    steps = [after - before for before, after in pairwise(tops)]
    usual = median(steps or [0.0])
    text = _write_row(rows[0])
    for index, step in enumerate(steps):
        sizes = sorted(heights[index : index + 2])
        apart = step > _PARAGRAPH * usual or sizes[1] > _OTHER_SIZE * sizes[0]
        text += ("\n\n" if apart else "\n") + _write_row(rows[index + 1])
    return text


def _is_in_row(one: Line, other: Line) -> bool:
    shared = min(one.bottom, other.bottom) - max(one.top, other.top)
    return shared >= _SAME_ROW * min(one.height, other.height)


def _write_row(row: Sequence[Line]) -> str:
    return " ".join(line.text for line in sorted(row, key=lambda item: item.left))
