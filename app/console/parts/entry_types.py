"""The types of entries, as pages name them."""

from __future__ import annotations

from collections.abc import Mapping

TYPES: Mapping[str, str] = {
    "fact": "fact",
    "summary": "summary",
    "template": "template",
    "decision": "decision",
    "lesson": "lesson",
    "temp_note": "temporary note",
    "insight": "insight",
    "chunk": "passage of a document",
}


def name_type(entry_type: str) -> str:
    """The name of a type; that of an unknown one is the text itself."""
    return TYPES.get(entry_type, entry_type)
