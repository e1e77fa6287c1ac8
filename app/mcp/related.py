"""The result of kb_get_related."""

from __future__ import annotations

from typing import Any

from app.knowledge.entries.related import Related, RelatedEntry
from app.knowledge.quarantine.flagging import flags_of
from app.mcp.answers import ToolAnswer
from app.mcp.passages import READABLE_LENGTH, Marker, cut_passage, mark_flags


def answer_related(found: Related, structured: dict[str, Any]) -> ToolAnswer:
    """Build the text and the structured form of related entries."""
    if not len(found):
        return ToolAnswer("Nothing is related to it, or there is no such entry.", structured)
    marker = Marker(
        [
            text
            for item in found
            for text in (
                item.entry.content,
                item.entry.title or "",
                item.entry.asset_name or "",
                *item.entry.tags,
            )
        ]
    )
    blocks = [_write(number, item, marker) for number, item in enumerate(found, 1)]
    return ToolAnswer(
        "\n\n".join([f"{len(found)} of {found.total} related entries. {marker.notice}", *blocks]), structured
    )


def _write(number: int, item: RelatedEntry, marker: Marker) -> str:
    entry = item.entry
    shared = f" ({item.overlap_count} shared tags)" if item.overlap_count else ""
    passage = cut_passage(entry.content, (0, 0), READABLE_LENGTH)
    lines = [
        *([f"source: {entry.asset_name}"] if entry.asset_name else []),
        *([f"title: {entry.title}"] if entry.title else []),
        *([f"tags: {', '.join(entry.tags)}"] if entry.tags else []),
        passage.text,
    ]
    cut = " (cut)" if passage.cut else ""
    flags = flags_of(entry.metadata)
    mark = f", {mark_flags(flags)}" if flags else ""
    head = f"{number}. {item.relationship}{shared}, {entry.entry_type}, id {entry.id}{mark}{cut}"
    return f"{head}\n{marker.enclose(chr(10).join(lines))}"
