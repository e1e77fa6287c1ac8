"""Find what a page shows except text: rules of tables, filled areas, images, and the areas that clip its text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from pypdfium2 import raw

from app.documents.readers.pdf import pdfium
from app.documents.readers.pdf.pdfium import Matrix
from app.documents.readers.pdf.words import Box, rotate_box, surround

_MOST_OBJECTS = 20_000
"""Objects of a page that are read."""
_MOST_SEGMENTS = 4_000
_MOST_FILLS = 2_000
_MAX_DEPTH = 6
_THIN = 2.5
_MIN_RULE = 6.0
_OPAQUE = 250
"""Alpha, of 255: a fill with less lets text be seen."""
_SAME_PLACE = 0.5
_IDENTITY: Matrix = (1, 0, 0, 1, 0, 0)
_MOST_OF_CLIPS = 40_000
"""Segments of a page's clip paths; further paths are assumed to show everything."""
_MOST_OF_PATH = 100

Area = Box | None
"""None: everything is drawn."""


@dataclass(frozen=True, slots=True)
class Cover:
    """An area drawn at `order`; `image` is the object if it is an image, else 0."""

    box: Box
    order: int
    image: int = 0


@dataclass(frozen=True, slots=True)
class Fill:
    """An area drawn at `order`; `colour` is None where it has more than one: an image, a pattern, an odd shape."""

    box: Box
    colour: tuple[int, int, int] | None
    order: int


@dataclass(slots=True)
class Drawings:
    """The rules, horizontal and vertical, and the areas of a page.

    Attributes:
        fills: areas that can be the background of text.
        covers: areas and images that hide what they are drawn over.
        orders: when each text object is drawn.
        clips: the area in which a text object is drawn, for those that have one.
    """

    horizontal: list[Box] = field(default_factory=list)
    vertical: list[Box] = field(default_factory=list)
    fills: list[Fill] = field(default_factory=list)
    images: list[Box] = field(default_factory=list)
    covers: list[Cover] = field(default_factory=list)
    orders: dict[int, int] = field(default_factory=dict)
    clips: dict[int, Box] = field(default_factory=dict)


def intersect(one: Area, other: Box) -> Box:
    """The part of a box in an area; a box without extent if there is none."""
    if one is None:
        return other
    x0, y0 = max(one.x0, other.x0), max(one.y0, other.y0)
    return Box(x0, y0, max(x0, min(one.x1, other.x1)), max(y0, min(one.y1, other.y1)))


def turn_rules(drawings: Drawings, turns: int) -> None:
    """Put the rules into the coordinates of text with `turns`."""
    if turns:
        rules = [rotate_box(box, turns) for box in (*drawings.horizontal, *drawings.vertical)]
        drawings.horizontal = [box for box in rules if box.x1 - box.x0 >= box.y1 - box.y0]
        drawings.vertical = [box for box in rules if box.x1 - box.x0 < box.y1 - box.y0]


class DrawingReader:
    """Walks through the objects of a page, and of the forms that it draws, up to a limit."""

    def __init__(self) -> None:
        self._drawings = Drawings()
        self._order = 0
        self._segments = 0
        self._clip_segments = _MOST_OF_CLIPS
        self._box = pdfium.floats(4)
        self._matrix = pdfium.floats(6)
        self._colour = pdfium.integers(4)
        self._mode = pdfium.integers(2)
        self._point = pdfium.floats(2)

    def read(self, page: int) -> Drawings:
        """What the page draws; to be called once."""
        count = min(pdfium.count_objects(page), _MOST_OBJECTS)
        self._walk(list(map(pdfium.get_object, repeat(page, count), range(count))), _IDENTITY, 0, None)
        return self._drawings

    def _walk(self, handles: Sequence[int], matrix: Matrix, depth: int, around: Area, *, solid: bool = True) -> None:
        drawings = self._drawings
        for handle, kind in zip(handles, map(pdfium.get_type, handles), strict=True):
            self._order += 1
            if self._order > _MOST_OBJECTS:
                return
            if kind == raw.FPDF_PAGEOBJ_TEXT:
                drawings.orders[handle] = self._order
                area = self._find_clip(handle, matrix, around)
                if area is not None:
                    drawings.clips[handle] = area
            elif kind == raw.FPDF_PAGEOBJ_PATH:
                self._read_path(handle, matrix, around, solid=solid)
            elif kind in (raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_SHADING):
                if box := self._find_box(handle, matrix):
                    self._fill(box, None)
                    drawings.images.append(box)
                    if kind == raw.FPDF_PAGEOBJ_IMAGE and solid:
                        self._cover(handle, box, matrix, around, image=handle)
            elif kind == raw.FPDF_PAGEOBJ_FORM and depth < _MAX_DEPTH:
                self._walk_form(handle, matrix, depth, around, solid=solid)

    def _walk_form(self, handle: int, matrix: Matrix, depth: int, around: Area, *, solid: bool) -> None:
        pdfium.get_object_matrix(handle, self._matrix.at[0])
        inner = _multiply(tuple(self._matrix.values), matrix)
        area = self._find_clip(handle, matrix, around)
        solid = solid and not pdfium.has_transparency(handle)
        count = min(pdfium.count_form_objects(handle), _MOST_OBJECTS - self._order)
        handles = list(map(pdfium.get_form_object, repeat(handle, count), range(count)))
        self._walk(handles, inner, depth + 1, area, solid=solid)

    def _cover(self, handle: int, box: Box, matrix: Matrix, around: Area, image: int = 0) -> None:
        """Record what hides text, unless no text was drawn before, or text can be seen through it."""
        if not self._drawings.orders or len(self._drawings.covers) >= _MOST_FILLS:
            return
        if not pdfium.has_transparency(handle):
            shown = intersect(self._find_clip(handle, matrix, around), box)
            self._drawings.covers.append(Cover(shown, self._order, image))

    def _find_clip(self, handle: int, matrix: Matrix, around: Area) -> Area:
        """The area of an object's clip paths, the box around each, within that of the form that draws the object."""
        clip = pdfium.get_clip_path(handle)
        for place in range(pdfium.count_clip_paths(clip) if clip else 0):
            count = pdfium.count_clip_segments(clip, place)
            if 0 <= count <= min(_MOST_OF_PATH, self._clip_segments):
                self._clip_segments -= count
                around = intersect(around, self._read_clip(clip, place, count, matrix))
        return around

    def _read_clip(self, clip: int, path: int, count: int, matrix: Matrix) -> Box:
        points = []
        for segment in map(pdfium.get_clip_segment, repeat(clip, count), repeat(path, count), range(count)):
            pdfium.get_point(segment, *self._point.at)
            points.append(_apply(matrix, *self._point.values))
        return surround(*points) if points else Box(0, 0, 0, 0)

    def _find_box(self, handle: int, matrix: Matrix) -> Box | None:
        if not pdfium.get_bounds(handle, *self._box.at):
            return None
        x0, y0, x1, y1 = self._box.values
        if matrix is _IDENTITY:
            return Box(x0, y0, x1, y1)
        return surround(*(_apply(matrix, x, y) for x in (x0, x1) for y in (y0, y1)))

    def _read_path(self, handle: int, matrix: Matrix, around: Area, *, solid: bool) -> None:
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
                if solid and alpha >= _OPAQUE and self._is_rectangle(handle, count, box, matrix):
                    self._cover(handle, box, matrix, around)
            self._fill(box, colour)

    def _is_rectangle(self, handle: int, count: int, box: Box, matrix: Matrix) -> bool:
        """Whether all corners of a path are corners of its box; a diagonal has a box, too."""
        corners = set()
        for _, x, y in self._list_points(handle, matrix, count):
            if min(abs(x - box.x0), abs(x - box.x1)) > _SAME_PLACE:
                return False
            if min(abs(y - box.y0), abs(y - box.y1)) > _SAME_PLACE:
                return False
            corners.add((abs(x - box.x0) <= _SAME_PLACE, abs(y - box.y0) <= _SAME_PLACE))
        return len(corners) == 4

    def _list_points(self, handle: int, matrix: Matrix, count: int) -> Iterator[tuple[int, float, float]]:
        """The kind and the place of each segment of a path."""
        pdfium.get_object_matrix(handle, self._matrix.at[0])
        whole = _multiply(tuple(self._matrix.values), matrix)
        for segment in map(pdfium.get_segment, repeat(handle, count), range(count)):
            pdfium.get_point(segment, *self._point.at)
            yield pdfium.get_segment_type(segment), *_apply(whole, *self._point.values)

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
        at: tuple[float, float] | None = None
        first: tuple[float, float] | None = None
        for kind, x, y in self._list_points(handle, matrix, count):
            self._segments += 1
            if self._segments > _MOST_SEGMENTS:
                return
            if kind == 2:
                first = x, y
            elif kind == 0 and at is not None:
                yield surround(at, (x, y))
            at = x, y
        if at is not None and first is not None and at != first:
            yield surround(at, first)


def _apply(matrix: Matrix, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _multiply(inner: Matrix, outer: Matrix) -> Matrix:
    a, b, c, d, e, f = inner
    (x0, y0), (x1, y1), (x2, y2) = _apply(outer, 0, 0), _apply(outer, a, b), _apply(outer, c, d)
    x3, y3 = _apply(outer, e, f)
    return (x1 - x0, y1 - y0, x2 - x0, y2 - y0, x3, y3)
