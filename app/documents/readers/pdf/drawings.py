"""What a page shows except text: rules of tables, filled areas and images; and text that a person does not see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from app.documents.parsed import HiddenReason
from app.documents.readers.pdf import pdfium
from app.documents.readers.pdf.pdfium import Matrix
from app.documents.readers.pdf.words import Box, Style, Word, rotate_box

_MOST_OBJECTS = 20_000
"""Of a page that are looked at."""
_MOST_SEGMENTS = 4_000
_MOST_FILLS = 2_000
_MAX_DEPTH = 6
_THIN = 2.5
_MIN_RULE = 6.0
# Differences that the eye does not see, of 255.
_SAME = 12
_FAINT = 12
_TINY = 2.0
_INVISIBLE_MODES = frozenset({3, 7})
_IDENTITY: Matrix = (1, 0, 0, 1, 0, 0)


@dataclass(frozen=True, slots=True)
class Fill:
    """An area drawn at `order`; `colour` is None where it has more than one: an image, a pattern, an odd shape."""

    box: Box
    colour: tuple[int, int, int] | None
    order: int


@dataclass(slots=True)
class Drawings:
    """The rules, horizontal and vertical, and the areas of a page; `orders` are those of its text objects."""

    horizontal: list[Box] = field(default_factory=list)
    vertical: list[Box] = field(default_factory=list)
    fills: list[Fill] = field(default_factory=list)
    images: list[Box] = field(default_factory=list)
    orders: dict[int, int] = field(default_factory=dict)


def read_drawings(page: int) -> Drawings:
    """Walk through the objects of a page, and of the forms that it draws, up to a limit."""
    drawings = Drawings()
    _Reader(drawings).read(page)
    return drawings


def turn_rules(drawings: Drawings, turns: int) -> None:
    """Put the rules into the coordinates of text with `turns`."""
    if turns:
        rules = [rotate_box(box, turns) for box in (*drawings.horizontal, *drawings.vertical)]
        drawings.horizontal = [box for box in rules if box.x1 - box.x0 >= box.y1 - box.y0]
        drawings.vertical = [box for box in rules if box.x1 - box.x0 < box.y1 - box.y0]


def mark_hidden(words: Sequence[Word], drawings: Drawings, page: Box) -> None:
    """Mark words that a reader does not see. Text over an image may be invisible: it is the text of a scan."""
    doubtful: dict[Style, bool] = {}
    for word in words:
        style = word.style
        if style not in doubtful:
            doubtful[style] = _is_doubtful(style, drawings)
        box = rotate_box(Box(word.x0, word.y, word.x1, word.y + 0.7 * style.size), (4 - style.turns) % 4)
        if box.x1 < page.x0 or box.x0 > page.x1 or box.y1 < page.y0 or box.y0 > page.y1:
            word.hidden = "off_page"
        elif doubtful[style]:
            word.hidden = _find_reason(word, drawings, box)


def _is_doubtful(style: Style, drawings: Drawings) -> bool:
    if style.size < _TINY or style.mode in _INVISIBLE_MODES or style.colour is None:
        return True
    *colour, alpha = style.colour
    if alpha <= _FAINT or _are_same(colour, (255, 255, 255)):
        return True
    return any(fill.colour is not None and _are_same(colour, fill.colour) for fill in drawings.fills)


def _find_reason(word: Word, drawings: Drawings, box: Box) -> HiddenReason | None:
    style = word.style
    x, y = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
    if style.size < _TINY:
        return "tiny"
    if style.mode in _INVISIBLE_MODES or (style.colour is not None and style.colour[3] <= _FAINT):
        return None if any(_contains(image, x, y) for image in drawings.images) else "transparent"
    if style.colour is None:
        return None
    order = drawings.orders.get(word.handle)
    if order is None:
        return None
    below: tuple[int, int, int] | None = (255, 255, 255)
    for fill in drawings.fills:
        if fill.order >= order:
            break
        if _contains(fill.box, x, y):
            below = fill.colour
    return "same_colour" if below is not None and _are_same(style.colour[:3], below) else None


def _contains(box: Box, x: float, y: float) -> bool:
    return box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1


def _are_same(one: Sequence[int], other: Sequence[int]) -> bool:
    return all(abs(a - b) <= _SAME for a, b in zip(one, other, strict=False))


class _Reader:
    def __init__(self, drawings: Drawings) -> None:
        self._drawings = drawings
        self._order = 0
        self._segments = 0
        self._box = pdfium.floats(4)
        self._matrix = pdfium.floats(6)
        self._colour = pdfium.integers(4)
        self._mode = pdfium.integers(2)
        self._point = pdfium.floats(2)

    def read(self, page: int) -> None:
        count = min(pdfium.count_objects(page), _MOST_OBJECTS)
        self._walk(list(map(pdfium.get_object, repeat(page, count), range(count))), _IDENTITY, 0)

    def _walk(self, handles: Sequence[int], matrix: Matrix, depth: int) -> None:
        drawings = self._drawings
        for handle, kind in zip(handles, map(pdfium.get_type, handles), strict=True):
            self._order += 1
            if self._order > _MOST_OBJECTS:
                return
            if kind == pdfium.TEXT:
                drawings.orders[handle] = self._order
            elif kind == pdfium.PATH:
                self._read_path(handle, matrix)
            elif kind in (pdfium.IMAGE, pdfium.SHADING):
                if box := self._find_box(handle, matrix):
                    self._fill(box, None)
                    drawings.images.append(box)
            elif kind == pdfium.FORM and depth < _MAX_DEPTH:
                pdfium.get_object_matrix(handle, self._matrix.at[0])
                inner = _multiply(tuple(self._matrix.values), matrix)
                count = min(pdfium.count_form_objects(handle), _MOST_OBJECTS - self._order)
                self._walk(
                    list(map(pdfium.get_form_object, repeat(handle, count), range(count))), inner, depth + 1
                )

    def _find_box(self, handle: int, matrix: Matrix) -> Box | None:
        if not pdfium.get_bounds(handle, *self._box.at):
            return None
        x0, y0, x1, y1 = self._box.values
        if matrix is _IDENTITY:
            return Box(x0, y0, x1, y1)
        corners = [_apply(matrix, x, y) for x in (x0, x1) for y in (y0, y1)]
        xs, ys = [x for x, _ in corners], [y for _, y in corners]
        return Box(min(xs), min(ys), max(xs), max(ys))

    def _read_path(self, handle: int, matrix: Matrix) -> None:
        box = self._find_box(handle, matrix)
        if box is None or not pdfium.get_draw_mode(handle, *self._mode.at):
            return
        filled, stroked = self._mode.values
        count = pdfium.count_segments(handle)
        if stroked or (filled and min(box.x1 - box.x0, box.y1 - box.y0) < _THIN):
            if min(box.x1 - box.x0, box.y1 - box.y0) < _THIN:
                self._add_rule(box)
            elif count <= 400:
                for rule in self._read_segments(handle, matrix, count):
                    self._add_rule(rule)
        if filled and min(box.x1 - box.x0, box.y1 - box.y0) >= _THIN:
            colour = None
            if count <= 6 and pdfium.get_fill_colour(handle, *self._colour.at):
                red, green, blue, alpha = self._colour.values
                if alpha < 128:
                    return
                colour = (red, green, blue)
            self._fill(box, colour)

    def _fill(self, box: Box, colour: tuple[int, int, int] | None) -> None:
        if len(self._drawings.fills) < _MOST_FILLS:
            self._drawings.fills.append(Fill(box, colour, self._order))

    def _add_rule(self, box: Box) -> None:
        width, height = box.x1 - box.x0, box.y1 - box.y0
        if len(self._drawings.horizontal) + len(self._drawings.vertical) >= _MOST_SEGMENTS:
            return
        if width >= _MIN_RULE and height < _THIN:
            self._drawings.horizontal.append(box)
        elif height >= _MIN_RULE and width < _THIN:
            self._drawings.vertical.append(box)

    def _read_segments(self, handle: int, matrix: Matrix, count: int) -> Iterator[Box]:
        pdfium.get_object_matrix(handle, self._matrix.at[0])
        whole = _multiply(tuple(self._matrix.values), matrix)
        at: tuple[float, float] | None = None
        first: tuple[float, float] | None = None
        for index in range(count):
            self._segments += 1
            if self._segments > _MOST_SEGMENTS:
                return
            segment = pdfium.get_segment(handle, index)
            kind = pdfium.get_segment_type(segment)
            pdfium.get_point(segment, *self._point.at)
            x, y = self._point.values
            to = _apply(whole, x, y)
            if kind == 2:
                first = to
            elif kind == 0 and at is not None:
                yield Box(min(at[0], to[0]), min(at[1], to[1]), max(at[0], to[0]), max(at[1], to[1]))
            at = to
        if at is not None and first is not None and at != first:
            yield Box(min(at[0], first[0]), min(at[1], first[1]), max(at[0], first[0]), max(at[1], first[1]))


def _apply(matrix: Matrix, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _multiply(inner: Matrix, outer: Matrix) -> Matrix:
    a, b, c, d, e, f = inner
    (x0, y0), (x1, y1), (x2, y2) = _apply(outer, 0, 0), _apply(outer, a, b), _apply(outer, c, d)
    x3, y3 = _apply(outer, e, f)
    return (x1 - x0, y1 - y0, x2 - x0, y2 - y0, x3, y3)
