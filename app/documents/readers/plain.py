"""Plain text."""

from __future__ import annotations

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.text import decode_text


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read plain text in any usual encoding."""
    builder = TextBuilder(limits)
    builder.add(decode_text(data))
    return builder.finish("text")
