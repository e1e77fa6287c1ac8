"""Recognise minified code, and describe it instead of reading it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from app.documents.parsed import ParsedDocument
from app.documents.readers.builder import TextBuilder

# A shorter file is cut into few chunks, whatever it contains.
_MIN_LENGTH = 2_000
_LONG_LINE = 500
# Of a minified file, long lines are more than this share, and spaces in them less than that one.
_LONG_SHARE = 0.6
_SPACE_SHARE = 0.08
# Comments that minifiers keep, such as the name of a library and its licence.
_OPENS, _CLOSES = "/*!", "*/"
_MAX_LENGTH = 1_500
_MAX_KEPT = 20


def is_minified(text: str) -> bool:
    """Whether most of a text is long lines without spaces, as minifiers write them."""
    if len(text) < _MIN_LENGTH:
        return False
    long = [line for line in text.splitlines() if len(line) > _LONG_LINE]
    length = sum(map(len, long))
    return length > _LONG_SHARE * len(text) and sum(line.count(" ") for line in long) < _SPACE_SHARE * length


def describe(builder: TextBuilder, text: str, format_name: str, label: str) -> ParsedDocument:
    """The comments that name the library and its licence, and a sentence about the file."""
    for kept in dict.fromkeys(islice(_list_kept(text), _MAX_KEPT)):
        builder.add("\n".join(line.strip().lstrip("*").strip() for line in kept.strip().splitlines()))
    builder.add(f"Minified {label} of {len(text):,} characters. Its code is not searched; the source of it can be.")
    return builder.finish(format_name)


def _list_kept(text: str) -> Iterator[str]:
    start = text.find(_OPENS)
    while start >= 0:
        end = text.find(_CLOSES, start + len(_OPENS))
        if end < 0:
            return
        if end - start <= _MAX_LENGTH:
            yield text[start + len(_OPENS) : end]
        start = text.find(_OPENS, end)
