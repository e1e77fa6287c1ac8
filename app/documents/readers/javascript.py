"""JavaScript: source code, or a note if it is minified."""

from __future__ import annotations

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers import source_code
from app.documents.readers.builder import TextBuilder
from app.documents.readers.generated.minified import describe, is_minified
from app.documents.readers.text import decode_text


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read JavaScript; chunks are cut first at definitions, then at blank lines."""
    text = decode_text(data)
    if is_minified(text):
        return describe(TextBuilder(limits), text, "javascript", "JavaScript")
    return source_code.parse(data, limits)
