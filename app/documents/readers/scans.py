"""Pages of a PDF without a text layer, and pictures on the others, whose text is recognised."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from pypdfium2 import PdfiumError, raw

from app.documents.ocr.access import Image, find_recogniser
from app.documents.parsed import ParseLimits
from app.documents.readers.pdf.words import Box, Word
from app.documents.readers.pictures import LOOKED_AT, PictureReader

_LITTLE_TEXT = 100
"""Letters of a page with an image: as many as a scanner's stamp or a page number has."""
_LARGE = 0.6
"""An image that covers this share of the page can be a scan."""
_LINES = (72, 20)
"""Width and height in points of an image with a few lines of text; on a page without text it can be one."""
_SHAPES = 50
"""A page without text that draws this many shapes can have letters among them."""
_MOST_OBJECTS = 10_000
_FORM_DEPTH = 3
_UNREADABLE = 0.3
"""Share of characters without a meaning: the fonts of such a page lack a table of characters."""
_DOTS = 200 / 72
"""Dots for each point of a page: 200 dpi."""

Margins = tuple[float, float, float, float]
"""Left, bottom, right and top, in points."""


def read_scan(page: Any, text: str, limits: ParseLimits) -> tuple[str | None, bool]:
    """The text recognised on a page that is a scan, None if its text layer, `text`, has more; and whether the page has
    no text that was not recognised. Raises RecognitionNeeded."""
    if not is_scan(page, text):
        return None, True
    recogniser = find_recogniser()
    found = None if recogniser is None else recogniser.recognise(lambda: draw_page(page, limits))
    if found is None:
        return None, False
    more = len(found.text) > len(text.strip()) or _is_unreadable(text)
    return found.text if more else None, found.complete


def is_scan(page: Any, text: str) -> bool:
    """Whether a page shows an image of nearly all of it, or only shapes, and has no text, or a little; or has no text
    and an image of a few lines; or has text whose characters have no meaning."""
    letters = sum(map(str.isalnum, text))
    if letters > _LITTLE_TEXT:
        return _is_unreadable(text)
    width, height = page.get_size()
    shapes = 0
    try:
        for count, item in enumerate(page.get_objects(max_depth=_FORM_DEPTH)):
            if item.type == raw.FPDF_PAGEOBJ_IMAGE:
                left, bottom, right, top = item.get_bounds()
                across, high = right - left, top - bottom
                if across * high >= _LARGE * width * height or (
                    not letters and across >= _LINES[0] and high >= _LINES[1]
                ):
                    return True
            shapes += item.type == raw.FPDF_PAGEOBJ_PATH
            if count >= _MOST_OBJECTS:
                break
    except PdfiumError:
        return False
    return not letters and shapes >= _SHAPES


_SOME_LINES = (150, 45)
"""Width and height in points of a picture on a page with text that can show some lines of text."""
_WITHIN = 20
"""Characters of the text layer within a picture: with more, it is a scan that has its text, or the background."""


def read_pictures(
    reader: PictureReader, page: Any, boxes: Sequence[Box], limits: ParseLimits
) -> tuple[list[str], bool]:
    """The texts of the pictures in these boxes, and whether they are all. Raises RecognitionNeeded."""
    pictures = [
        reader.read(partial(_look_at, page, box, cut), partial(draw_page, page, limits, cut))
        for box in boxes
        if (cut := _find_margins(page, box)) is not None
    ]
    return [picture.text for picture in pictures if picture.text], all(picture.complete for picture in pictures)


def _look_at(page: Any, box: Box, cut: Margins) -> bytes:
    scale = min(1.0, LOOKED_AT / max(box.x1 - box.x0, box.y1 - box.y0))
    return bytes(page.render(scale=scale, crop=cut, grayscale=True).buffer)


def choose_pictures(boxes: Sequence[Box], words: Sequence[Word]) -> list[Box]:
    """The pictures that can show some lines of text which the text layer lacks."""
    return [
        box
        for box in boxes
        if box.x1 - box.x0 >= _SOME_LINES[0]
        and box.y1 - box.y0 >= _SOME_LINES[1]
        and sum(len(word.text) for word in words if _holds(box, word)) <= _WITHIN
    ]


def _holds(box: Box, word: Word) -> bool:
    return box.x0 <= word.x0 and word.x1 <= box.x1 and box.y0 <= word.y <= box.y1


def _find_margins(page: Any, box: Box) -> Margins | None:
    """The parts of the page around a box; None for a turned page, and for a box that is not on the page."""
    left, bottom, right, top = page.get_bbox()
    if page.get_rotation() or min(box.x1, right) - max(box.x0, left) < 1 or min(box.y1, top) - max(box.y0, bottom) < 1:
        return None
    return max(0.0, box.x0 - left), max(0.0, box.y0 - bottom), max(0.0, right - box.x1), max(0.0, top - box.y1)


def draw_page(page: Any, limits: ParseLimits, cut: Margins = (0, 0, 0, 0)) -> Image:
    """Draw a page without the margins that are cut off, at 200 dpi, a very large one at fewer."""
    width, height = page.get_size()
    area = (width - cut[0] - cut[2]) * (height - cut[1] - cut[3])
    scale = min(_DOTS, math.sqrt(limits.ocr_pixels / max(1.0, area)))
    bitmap = page.render(scale=scale, crop=cut, rev_byteorder=False)
    return bitmap.to_numpy()[:, :, :3].copy()


def _is_unreadable(text: str) -> bool:
    seen = [character for character in text if not character.isspace()]
    lost = sum(character == "\ufffd" or "\ue000" <= character <= "\uf8ff" for character in seen)
    return lost > _UNREADABLE * len(seen)
