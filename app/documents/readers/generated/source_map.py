"""Source maps: the names of the sources; their contents belong to the sources themselves."""

from __future__ import annotations

import json
from typing import Any

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.text import collapse_spaces, decode_text
from app.errors import UnreadableDocument

_MAX_SOURCES = 10_000


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read the names of the generated file and of its sources. Raises UnreadableDocument for broken JSON."""
    try:
        value = json.loads(decode_text(data))
    except (ValueError, RecursionError):
        raise UnreadableDocument("the source map is damaged: its JSON cannot be read") from None
    builder = TextBuilder(limits)
    name = value.get("file") if isinstance(value, dict) else None
    builder.add(f"Source map of {collapse_spaces(name)[:300]}" if isinstance(name, str) and name else "Source map")
    builder.add("\n".join(_list_sources(value)[:_MAX_SOURCES]))
    return builder.finish("sourcemap")


def _list_sources(value: Any) -> list[str]:
    if not isinstance(value, dict):
        return []
    sections = value.get("sections")
    maps = (
        [value, *(item.get("map") for item in sections if isinstance(item, dict))]
        if isinstance(sections, list)
        else [value]
    )
    names = (item.get("sources") for item in maps if isinstance(item, dict))
    return [
        collapse_spaces(name) for found in names if isinstance(found, list) for name in found if isinstance(name, str)
    ]
