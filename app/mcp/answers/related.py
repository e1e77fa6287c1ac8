"""The result of kb_get_related."""

from __future__ import annotations

from typing import Any

from app.knowledge.entries.related import Related, RelatedEntry
from app.mcp.answers.described import list_facts, mark_of, texts_of, write_lines
from app.mcp.answers.passages import READABLE_LENGTH, Marker, cut_passage
from app.mcp.answers.tool_answer import ToolAnswer


def answer_related(found: Related, structured: dict[str, Any]) -> ToolAnswer:
    """Build the text and the structured form of related entries."""
    if not len(found):
        return ToolAnswer("Nothing is related to it, or there is no such entry.", structured)
    marker = Marker([text for item in found for text in texts_of(item.entry)])
    blocks = [_write(number, item, marker) for number, item in enumerate(found, 1)]
    return ToolAnswer(
        "\n\n".join([f"{len(found)} of {found.total} related entries. {marker.notice}", *blocks]), structured
    )


def _write(number: int, item: RelatedEntry, marker: Marker) -> str:
    entry = item.entry
    shared = f" ({item.overlap_count} shared tags)" if item.overlap_count else ""
    passage = cut_passage(entry.content, (0, 0), READABLE_LENGTH)
    cut = " (cut)" if passage.cut else ""
    facts = [f"{item.relationship}{shared}", *list_facts(entry), f"id {entry.id}", *mark_of(entry)]
    return f"{number}. {', '.join(facts)}{cut}\n" + marker.enclose(
        "\n".join([*write_lines(entry), passage.text])
    )
