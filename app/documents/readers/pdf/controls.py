"""Characters of fonts that state no meaning, as TeX's bitmap fonts: ligatures, dashes and quotes at control codes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.documents.readers.pdf import pdfium

_CONTROL = re.compile("[\x01\x03-\x08\x0b-\x1f\x80-\x9f]")
_PRINTED = re.compile(r"[a-z]{3,}")
# The two encodings of TeX's text fonts, OT1 and T1. The ligatures ff, fi, fl, ffi and ffl have five codes in a row.
_OLD_LIGATURES = {0x0B + place: chr(0xFB00 + place) for place in range(5)}
_NEW_LIGATURES = {0x1B + place: chr(0xFB00 + place) for place in range(5)}
_OLD = {**_OLD_LIGATURES, 0x10: "ı", 0x19: "ß", ord("{"): "–", ord("|"): "—", ord("\\"): "“"}
_OLD_SIGN = re.compile(r"[{|\\]")
_NEW = {**_NEW_LIGATURES, **dict(enumerate("‚‹›“”„«»–—", start=0x0D)), 0x19: "ı"}
_NOTHING = "\u00ad"
"""A character that is removed from words, which stay whole."""
_SYMBOLS = {0x0F: "•", 0x88: "•"}
"""Of TeX's fonts of symbols, which begin the items of lists with these."""


def read_controls(text: str, handles: Sequence[int | None]) -> str:
    """The text of a page, as long as before, without control characters that its fonts draw.

    `handles` are the text objects that draw the characters, None for those that PDFium adds.
    """
    drawn = [match.start() for match in _CONTROL.finditer(text) if handles[match.start()]]
    if not drawn:
        return text
    fonts: dict[int, list[int]] = {}
    known: dict[int, int] = {}

    def find_font(index: int) -> int:
        handle = handles[index] or 0
        if handle not in known:
            known[handle] = (pdfium.get_font(handle) or 0) if handle else 0
        return known[handle]

    for index in drawn:
        fonts.setdefault(find_font(index), []).append(index)
    of_text = {find_font(match.start()) for match in _PRINTED.finditer(text)}
    characters = list(text)
    old: set[int] = set()
    for font, places in fonts.items():
        codes = {ord(text[index]) for index in places}
        meanings = _SYMBOLS
        if font in of_text:
            meanings = _OLD if codes & _OLD_LIGATURES.keys() and not codes & _NEW_LIGATURES.keys() else _NEW
        if meanings is _OLD:
            old.add(font)
        for index in places:
            characters[index] = meanings.get(ord(text[index]), _NOTHING)
    for match in _OLD_SIGN.finditer(text) if old else ():
        if find_font(match.start()) in old:
            characters[match.start()] = _OLD[ord(match.group())]
    return "".join(characters)
