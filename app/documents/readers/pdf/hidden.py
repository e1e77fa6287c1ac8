"""Marks the words of a page that a person does not see."""

from __future__ import annotations

from collections.abc import Sequence

from app.documents.parsed import HiddenReason
from app.documents.readers.pdf.drawings import Drawings
from app.documents.readers.pdf.hiding import Covers, find_share
from app.documents.readers.pdf.words import Box, Style, Word, rotate_box

# Differences that the eye does not see, of 255.
_SAME = 12
_FAINT = 12
_TINY = 2.0
_CLIPPED = 0.1
"""Share of a word; with less of it in the clip path it cannot be read."""
_INVISIBLE_MODES = frozenset({3, 7})


def mark_hidden(words: Sequence[Word], drawings: Drawings, box: Box, page: int = 0, document: int = 0) -> None:
    """Mark words of a page, with this box, that a reader does not see.

    Text over an image may be invisible, and text under an image of the whole page may be: it is the text of a scan.
    """
    doubtful: dict[Style, bool] = {}
    covers = Covers(drawings.covers, page, document, box)
    for word in words:
        style = word.style
        if style not in doubtful:
            doubtful[style] = _is_doubtful(style, drawings)
        place = rotate_box(Box(word.x0, word.y, word.x1, word.y + 0.7 * style.size), (4 - style.turns) % 4)
        area = drawings.clips.get(word.handle)
        if place.x1 < box.x0 or place.x0 > box.x1 or place.y1 < box.y0 or place.y0 > box.y1:
            word.hidden = "off_page"
        elif area is not None and find_share(place, area) < _CLIPPED:
            word.hidden = "clipped"
        elif doubtful[style]:
            word.hidden = _find_reason(word, drawings, place)
        if word.hidden is None and covers and covers.hide(place, drawings.orders.get(word.handle, 1 << 30)):
            word.hidden = "covered"


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
