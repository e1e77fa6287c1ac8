"""Source code, configuration and XML, kept unchanged; definitions are its headings."""

from __future__ import annotations

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.definitions import find_definitions
from app.documents.readers.text import decode_text


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read source code of any language; chunks are cut first at definitions, then at blank lines."""
    builder = TextBuilder(limits)
    builder.add(decode_text(data))
    text = builder.finish("code").text
    for definition in find_definitions(text):
        builder.mark_heading(definition.start, definition.title, definition.level)
    return builder.finish("code")
