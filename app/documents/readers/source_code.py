"""Source code, configuration and XML, kept unchanged."""

from __future__ import annotations

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.text import decode_text


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read source code of any language; chunks are cut first at blank lines."""
    builder = TextBuilder(limits)
    builder.add(decode_text(data))
    return builder.finish("code")
