"""Source code, configuration and XML: kept as it is."""

from __future__ import annotations

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.text import decode_text


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read source code of any language; blank lines are where it is cut first."""
    builder = TextBuilder(limits)
    builder.add(decode_text(data))
    return builder.finish("code")
