"""Lines of text that were recognised on an image, with their places."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

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
        """Of its box, which is a little larger than the letters."""
        return self.bottom - self.top

    @property
    def width(self) -> float:
        """Of its box."""
        return self.right - self.left

    @property
    def middle(self) -> float:
        """The height at which its middle lies."""
        return (self.top + self.bottom) / 2


def straighten(found: Iterable[Found]) -> list[Line]:
    """Turn the lines by the usual angle of the long ones, so that all are level."""
    found = list(found)
    angle = median([_angle(line) for line in found if _is_long(line)] or [0.0])
    cos, sin = math.cos(angle), math.sin(angle)
    lines = []
    for line in found:
        middle_x = sum(x for x, _ in line.corners) / 4
        middle_y = sum(y for _, y in line.corners) / 4
        x, y = middle_x * cos + middle_y * sin, middle_y * cos - middle_x * sin
        width, height = _size(line.corners)
        lines.append(Line(line.text, x - width / 2, y - height / 2, x + width / 2, y + height / 2))
    return lines


def _angle(line: Found) -> float:
    (left, top), (right, below) = line.corners[:2]
    return math.atan2(below - top, right - left)


def _is_long(line: Found) -> bool:
    width, height = _size(line.corners)
    return width >= _LONG * height


def _size(corners: Sequence[Point]) -> tuple[float, float]:
    first, second, third, fourth = corners
    width = (math.dist(first, second) + math.dist(fourth, third)) / 2
    height = (math.dist(first, fourth) + math.dist(second, third)) / 2
    return width, height
