"""Marks the words of a page that a person does not see."""

import ctypes
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache

from pypdfium2 import PdfBitmap, raw

from app.documents.parsed import HiddenReason
from app.documents.readers.pdf import pdfium
from app.documents.readers.pdf.drawings import Cover, Drawings, intersect
from app.documents.readers.pdf.lines import Piece, find_pieces
from app.documents.readers.pdf.words import Box, Style, Word, rotate_box

# Differences that the eye does not see, of 255.
_SAME = 12
_FAINT = 12
_TINY = 2.0
_CLIPPED = 0.1
"""Share of a word; with less of it in the clip path it cannot be read."""
_INVISIBLE_MODES = frozenset({3, 7})
_MOST_IMAGES = 8
"""Images of a page whose opacity is checked."""
_MOST_PIXELS = 4_000_000
_SAMPLES = 24
"""Samples of an image in each direction."""
_OPAQUE = 250
"""Alpha, of 255, of a pixel that shows nothing below."""
_SCAN = 0.6
"""An image of this share of a page is a scan, under which its recognised text stands."""
_WHOLE = 0.9
"""Share of a word's box; the rest is empty."""
_BAND = 32
_MOST_BANDS = 200
_WORD_OF_PROSE = re.compile(r"[^\W\d_]{3,}")
_LEAST_WORDS = 2
"""Words of prose in a line outside of the page; a line with fewer is a number or a mark of the printer."""


def mark_hidden(words: Sequence[Word], drawings: Drawings, box: Box, page: int = 0, document: int = 0) -> None:
    """Mark words of a page, with this box, that a reader does not see.

    Text over an image may be invisible, and text under an image of the whole page may be: it is the text of a scan.
    """
    is_doubtful = cache(lambda style: _is_doubtful(style, drawings))
    covers = Covers(drawings.covers, page, document, box)
    for word in words:
        place = _find_place(word)
        area = drawings.clips.get(word.handle)
        if place.x1 < box.x0 or place.x0 > box.x1 or place.y1 < box.y0 or place.y0 > box.y1:
            word.hidden = "off_page"
        elif area is not None and find_share(place, area) < _CLIPPED:
            word.hidden = "clipped"
        elif is_doubtful(word.style):
            word.hidden = _find_reason(word, drawings, place)
        if word.hidden is None and covers.hide(place, drawings.orders.get(word.handle, 1 << 30)):
            word.hidden = "covered"


def set_apart(words: Sequence[Word], page: Box | None) -> tuple[list[Word], list[Piece]]:
    """The words on the visible part of a page, and the lines of prose outside of it.

    Numbers and marks out there are for the printer, and so is what the page has outside of its crop box
    but within the whole `page`, if that is known: the edges that printing cuts off.
    """
    outside = [word for word in words if word.hidden == "off_page"]
    if not outside:
        return list(words), []
    beyond = [word for word in outside if page is None or not _contains(page, *_find_place(word)[:2])]
    lines = [piece for piece in find_pieces(beyond) if _is_prose(piece)]
    return [word for word in words if word.hidden != "off_page"], lines


def _find_place(word: Word) -> Box:
    """The place of a word in the coordinates of the page."""
    box = Box(word.x0, word.y, word.x1, word.y + 0.7 * word.style.size)
    return rotate_box(box, (4 - word.style.turns) % 4)


def _is_prose(piece: Piece) -> bool:
    return sum(1 for word in piece.words if _WORD_OF_PROSE.search(word.text)) >= _LEAST_WORDS


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
    order = drawings.orders.get(word.handle)
    if style.colour is None or order is None:
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
        drawn = ctypes.cast(pdfium.draw_image(self._document, self._page, cover.image), raw.FPDF_BITMAP)
        return bool(drawn) and _are_pixels_opaque(PdfBitmap.from_raw(drawn))


def _are_pixels_opaque(bitmap: PdfBitmap) -> bool:
    if bitmap.format != raw.FPDFBitmap_BGRA:  # other formats have no alpha
        return True
    width, height, stride, pixels = bitmap.width, bitmap.height, bitmap.stride, bitmap.buffer
    # The edge of an image is smoothed.
    rows = range(height // 20, max(height // 20 + 1, height - height // 20), max(1, height // _SAMPLES))
    columns = range(width // 20, max(width // 20 + 1, width - width // 20), max(1, width // _SAMPLES))
    return all(pixels[row * stride + 4 * column + 3] >= _OPAQUE for row in rows for column in columns)


def find_share(box: Box, area: Box) -> float:
    """The share of a box that is in an area."""
    x0, y0, x1, y1 = intersect(area, box)
    whole = (box.x1 - box.x0) * (box.y1 - box.y0)
    return (x1 - x0) * (y1 - y0) / whole if whole > 0 else 1.0
