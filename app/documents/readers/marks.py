"""Marks in a text that is not written yet: where text begins and ends that a reader of the original does not see.

Each mark is one character that no text contains, so that it survives the cleaning of the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from app.documents.parsed import HiddenReason
from app.documents.readers.builder import TextBuilder

CLOSE = "\ufdd0"
OPEN: Mapping[HiddenReason, str] = {
    "hidden_element": "\ufdd1",
    "hidden_run": "\ufdd2",
    "tiny": "\ufdd3",
    "transparent": "\ufdd4",
    "off_page": "\ufdd5",
    "same_colour": "\ufdd6",
    "covered": "\ufdd7",
    "clipped": "\ufdd8",
}
"""Noncharacters of Unicode: reserved for use inside a program."""

_REASONS = {mark: reason for reason, mark in OPEN.items()}
_MARK = re.compile(f"([{CLOSE}{''.join(_REASONS)}])")
_REFERENCE = re.compile(r"&#(?:x0{0,9}fdd[0-8]|0{0,9}(?:6497[6-9]|6498[0-4]));?", re.I)


def remove_marks(text: str) -> str:
    """A text of a file without characters that would be taken for marks."""
    return _MARK.sub("", text)


def remove_references(source: str) -> str:
    """The source of a page without marks and without references to such characters."""
    source = remove_marks(source)
    return _REFERENCE.sub("", source) if "&#" in source else source


def add_marked(builder: TextBuilder, text: str, gap: str = "\n\n") -> int | None:
    """Append a block that contains marks, and record the text between them; returns where the block begins.

    Text in marks has no marks inside.
    """
    pieces = _MARK.split(text)
    if len(pieces) == 1:
        return builder.add(text, gap)
    plain, spans = _separate(pieces)
    leading = len(plain) - len(plain.lstrip("\n"))
    start = builder.add(plain, gap)
    if start is None:
        return None
    for first, last, reason in spans:
        hidden = plain[first:last]
        first += len(hidden) - len(hidden.lstrip())
        # Cleaning can shorten the text: it joins a character and its accent.
        end = min(start + first + len(hidden.strip()) - leading, builder.length)
        if start + first - leading < end:
            builder.mark_hidden(start + first - leading, end, reason)
    return start


def _separate(pieces: list[str]) -> tuple[str, list[tuple[int, int, HiddenReason]]]:
    """The text without its marks, with one space where a mark stands between two, and the marked spans."""
    parts: list[str] = []
    spans: list[tuple[int, int, HiddenReason]] = []
    length = 0
    opened: tuple[int, HiddenReason] | None = None
    for piece in pieces:
        if piece in _REASONS:
            opened = (length, _REASONS[piece])
        elif piece == CLOSE:
            if opened is not None:
                spans.append((opened[0], length, opened[1]))
            opened = None
        elif piece:
            if piece[0] == " " and (not parts or parts[-1][-1:] in {" ", "\n"}):
                piece = piece[1:]
            if piece:
                parts.append(piece)
                length += len(piece)
    if opened is not None:
        spans.append((opened[0], length, opened[1]))
    return "".join(parts), spans
