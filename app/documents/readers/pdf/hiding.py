"""Find text that a reader of a page does not see: outside of clips, or covered."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat

from app.documents.readers.pdf import pdfium
from app.documents.readers.pdf.pdfium import Matrix
from app.documents.readers.pdf.words import Box

_MOST_SEGMENTS = 40_000
"""Segments of a page's clip paths; further paths are assumed to show everything."""
_MOST_OF_PATH = 100

Area = Box | None
"""None: everything is drawn."""


class Clips:
    """Reads the clip paths of the objects of a page. The area of a path is the box around it."""

    def __init__(self) -> None:
        self._left = _MOST_SEGMENTS
        self._point = pdfium.floats(2)

    def find(self, handle: int, matrix: Matrix, around: Area) -> Area:
        """The area within `around`, the area of the form that draws the object."""
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
    """The share of a box that is in an area."""
    width = min(box.x1, area.x1) - max(box.x0, area.x0)
    height = min(box.y1, area.y1) - max(box.y0, area.y0)
    whole = (box.x1 - box.x0) * (box.y1 - box.y0)
    return max(0.0, width) * max(0.0, height) / whole if whole > 0 else 1.0


_MOST_IMAGES = 8
"""Images of a page whose opacity is checked."""
_MOST_PIXELS = 4_000_000
_SAMPLES = 24
"""Samples of an image in each direction."""
_OPAQUE = 250
"""Alpha, of 255, of a pixel that shows nothing below."""
_WITH_ALPHA = 4
"""FPDFBitmap_BGRA; other formats have no alpha."""
_SCAN = 0.6
"""An image of this share of a page is a scan, under which its recognised text stands."""
_WHOLE = 0.9
"""Share of a word's box; the rest is empty."""
_BAND = 32
_MOST_BANDS = 200


@dataclass(frozen=True, slots=True)
class Cover:
    """An area drawn at `order`; `image` is the object if it is an image, else 0."""

    box: Box
    order: int
    image: int = 0


class Covers:
    """Finds whether something is drawn over a word."""

    def __init__(self, covers: Iterable[Cover], page: int, document: int, box: Box) -> None:
        self._page, self._document = page, document
        self._bands: defaultdict[int, list[Cover]] = defaultdict(list)
        self._opaque: dict[int, bool] = {}
        area = (box.x1 - box.x0) * (box.y1 - box.y0)
        for cover in covers:
            x0, y0, x1, y1 = cover.box
            if cover.image and (x1 - x0) * (y1 - y0) >= _SCAN * area:
                continue
            first = max(int(y0 // _BAND), int(box.y0 // _BAND))
            last = min(int(y1 // _BAND), int(box.y1 // _BAND), first + _MOST_BANDS)
            for band in range(first, last + 1):
                self._bands[band].append(cover)

    def __bool__(self) -> bool:
        return bool(self._bands)

    def hide(self, word: Box, order: int) -> bool:
        """Whether a word drawn at `order` is not seen."""
        y = (word.y0 + word.y1) / 2
        return any(
            cover.order > order
            and find_share(word, cover.box) >= _WHOLE
            and (not cover.image or self._is_opaque(cover))
            for cover in self._bands.get(int(y // _BAND), ())
        )

    def _is_opaque(self, cover: Cover) -> bool:
        if cover.image not in self._opaque:
            looked = len(self._opaque) < _MOST_IMAGES
            self._opaque[cover.image] = looked and self._look(cover)
        return self._opaque[cover.image]

    def _look(self, cover: Cover) -> bool:
        x0, y0, x1, y1 = cover.box
        size = pdfium.integers(2)
        if (x1 - x0) * (y1 - y0) > _MOST_PIXELS or not pdfium.get_pixel_size(cover.image, *size.at):
            return False
        width, height = size.values
        if width * height > _MOST_PIXELS:
            return False
        bitmap = pdfium.draw_image(self._document, self._page, cover.image)
        if not bitmap:
            return False
        try:
            return _are_pixels_opaque(bitmap)
        finally:
            pdfium.destroy_bitmap(bitmap)


def _are_pixels_opaque(bitmap: int) -> bool:
    if pdfium.get_bitmap_format(bitmap) != _WITH_ALPHA:
        return True
    width, height = pdfium.get_bitmap_width(bitmap), pdfium.get_bitmap_height(bitmap)
    stride, buffer = pdfium.get_bitmap_stride(bitmap), pdfium.get_bitmap_buffer(bitmap)
    if not buffer or width < 1 or height < 1:
        return False
    pixels = (ctypes.c_ubyte * (stride * height)).from_address(buffer)
    # The edge of an image is smoothed.
    rows = range(height // 20, max(height // 20 + 1, height - height // 20), max(1, height // _SAMPLES))
    columns = range(width // 20, max(width // 20 + 1, width - width // 20), max(1, width // _SAMPLES))
    return all(pixels[row * stride + 4 * column + 3] >= _OPAQUE for row in rows for column in columns)
