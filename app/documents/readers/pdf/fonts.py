"""What the fonts of a page tell: by their names, or by the words that they draw."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from app.documents.readers.pdf import pdfium

_BOLD = re.compile(r"bold|black|heavy|demi|semib|-bd|^(?:[A-Z]{6}\+)?(?:cmbx|sfbx|cmssbx|cmb\d)", re.I)
_FIXED = re.compile(r"mono|courier|consol|menlo|typewriter|^(?:[A-Z]{6}\+)?(?:cmtt|sftt|cmsltt|ectt)", re.I)
_FIXED_FLAG = 1
_LEAST_LETTERS = 20
"""In words that show whether the characters of a font have the same width."""
_LEAST_WORDS = 5
_SAME_WIDTH = 0.008
"""Of the font size."""


class Font(NamedTuple):
    """Whether a font is bold, whether its characters have the same width, and whether it has a name."""

    bold: bool
    fixed: bool
    named: bool


def describe_font(font: int) -> Font:
    """What a font states; 0 stands for an unknown one."""
    if not font:
        return Font(bold=False, fixed=False, named=True)
    name = pdfium.read_name(font)
    # Not by its weight, which PDFium derives from the width of stems: that of Times-Roman can be 695.
    fixed = bool(pdfium.get_font_flags(font) & _FIXED_FLAG) or _FIXED.search(name) is not None
    return Font(_BOLD.search(name) is not None, fixed, bool(name))


def find_fixed(words: Sequence[tuple[str, float, float]]) -> bool:
    """Whether words of one font, with their widths and sizes, are set in characters of the same width."""
    letters = [(text, width / len(text) / size) for text, width, size in words if text.isalpha() and size > 0]
    if sum(len(text) for text, _ in letters) < _LEAST_LETTERS or len(letters) < _LEAST_WORDS:
        return False
    widths = [width for _, width in letters]
    return max(widths) - min(widths) <= _SAME_WIDTH
