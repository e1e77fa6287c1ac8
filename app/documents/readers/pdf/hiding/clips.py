"""The areas outside of which an object of a page is not drawn."""

from __future__ import annotations

from itertools import repeat

from app.documents.readers.pdf import pdfium
from app.documents.readers.pdf.pdfium import Matrix
from app.documents.readers.pdf.words import Box

_MOST_SEGMENTS = 40_000
"""Of the clip paths of a page; further ones are taken to show all."""
_MOST_OF_PATH = 100

Area = Box | None
"""None: everything is drawn."""


class Clips:
    """Reads the clip paths of the objects of a page. The area of a path is the box around it."""

    def __init__(self) -> None:
        self._left = _MOST_SEGMENTS
        self._point = pdfium.floats(2)

    def find(self, handle: int, matrix: Matrix, around: Area) -> Area:
        """The area within `around`, that of the form that draws the object."""
        clip = pdfium.get_clip_path(handle)
        for place in range(pdfium.count_clip_paths(clip) if clip else 0):
            count = pdfium.count_clip_segments(clip, place)
            if not 0 <= count <= min(_MOST_OF_PATH, self._left):
                continue
            self._left -= count
            around = intersect(around, self._read_box(clip, place, count, matrix))
        return around

    def _read_box(self, clip: int, path: int, count: int, matrix: Matrix) -> Box:
        a, b, c, d, e, f = matrix
        xs, ys = [], []
        get_point, at, values = pdfium.get_point, self._point.at, self._point.values
        for segment in map(pdfium.get_clip_segment, repeat(clip, count), repeat(path, count), range(count)):
            get_point(segment, *at)
            x, y = values
            xs.append(a * x + c * y + e)
            ys.append(b * x + d * y + f)
        return Box(min(xs), min(ys), max(xs), max(ys)) if xs else Box(0, 0, 0, 0)


def intersect(one: Area, other: Box) -> Box:
    """The part of a box in an area; a box without extent if there is none."""
    if one is None:
        return other
    x0, y0 = max(one.x0, other.x0), max(one.y0, other.y0)
    return Box(x0, y0, max(x0, min(one.x1, other.x1)), max(y0, min(one.y1, other.y1)))


def find_share(box: Box, area: Box) -> float:
    """Which share of a box is in an area."""
    width = min(box.x1, area.x1) - max(box.x0, area.x0)
    height = min(box.y1, area.y1) - max(box.y0, area.y0)
    whole = (box.x1 - box.x0) * (box.y1 - box.y0)
    return max(0.0, width) * max(0.0, height) / whole if whole > 0 else 1.0
