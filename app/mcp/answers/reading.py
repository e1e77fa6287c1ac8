"""The result of kb_read_document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.db.queries.knowledge.assets import Asset
from app.db.queries.knowledge.inspection import Section
from app.knowledge.entries.sections import ReadPart
from app.mcp.answers.passages import Marker, mark_flags
from app.mcp.answers.tool_answer import ToolAnswer, to_json

SHOWN_CONTENTS = 60
"""Headings of the table of contents in the text; the structured output has all."""


def answer_part(asset: Asset, part: ReadPart) -> ToolAnswer:
    """Build the result for a part of a document."""
    lines = _list_lines(asset, part)
    marker = Marker([*lines, part.text])
    head = [f"Characters {part.start} to {part.end} of {part.total}."]
    if part.end < part.stop and part.stop < part.total:
        head.append("The page or section is cut.")
    if part.next_start is not None:
        head.append(f"Continue with start {part.next_start}.")
    if len(part.matches) > 1:
        head.append(f"{len(part.matches)} headings match; the first was read.")
    if asset.flags:
        head.append(f"{mark_flags(list(asset.flags))} (somewhere in the document).")
    head.append(marker.notice)
    structured: dict[str, Any] = {
        "asset_id": str(asset.id),
        "name": asset.name,
        "title": asset.title,
        "total_pages": asset.total_pages,
        "pages_without_text": list(asset.pages_without_text),
        "flags": dict(asset.flags),
        "text": part.text,
        "start": part.start,
        "end": part.end,
        "stop": part.stop,
        "total": part.total,
        "next_start": part.next_start,
        "matches": _describe(part.matches),
        "contents": _describe(part.contents),
    }
    return ToolAnswer(f"{' '.join(head)}\n\n{marker.enclose(chr(10).join([*lines, part.text]))}", structured)


def _list_lines(asset: Asset, part: ReadPart) -> list[str]:
    """Lines above the text, which callers or the document's author wrote."""
    lines = [f"document: {asset.name}"]
    if asset.title:
        lines.append(f"title: {asset.title}")
    for name, sections in (("heading", part.matches), ("contents", part.contents)):
        lines += [f"{name}: {s.title} (from character {s.start})" for s in sections[:SHOWN_CONTENTS]]
    return lines


def _describe(sections: Sequence[Section]) -> list[dict[str, Any]]:
    described = [to_json(section) for section in sections]
    return [{name: section[name] for name in ("title", "level", "start")} for section in described]
