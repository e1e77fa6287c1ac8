"""CSS and the languages that become CSS: the source, or a note if it is minified."""

from __future__ import annotations

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.generated.minified import describe, is_minified
from app.documents.readers.text import decode_text


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read a style sheet; chunks are cut first at blank lines."""
    text = decode_text(data)
    builder = TextBuilder(limits)
    if is_minified(text):
        return describe(builder, text, "css", "CSS")
    builder.add(text)
    return builder.finish("code")
