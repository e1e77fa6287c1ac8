"""The results of the tools that list tags and saved searches."""

from __future__ import annotations

from typing import Any

from app.db.queries.knowledge.tags import TagCount
from app.db.queries.work.saved_searches import SavedSearch
from app.knowledge.paging import Page
from app.mcp.answers.passages import Marker
from app.mcp.answers.tool_answer import ToolAnswer, to_json


def answer_tags(page: Page[TagCount]) -> ToolAnswer:
    """Build the result for a page of tags."""
    return _answer(page, "tag", "tags", [f"{item.tag} ({item.count})" for item in page.items])


def answer_saved_searches(page: Page[SavedSearch]) -> ToolAnswer:
    """Build the result for a page of saved searches."""
    lines = [f"{item.id}: {item.name}, query: {item.request.get('query')}" for item in page.items]
    return _answer(page, "saved search", "saved searches", lines)


def _answer(page: Page[Any], thing: str, things: str, lines: list[str]) -> ToolAnswer:
    structured = {"items": [to_json(item) for item in page.items], "next_cursor": page.next_cursor}
    if not lines:
        return ToolAnswer(f"There are no {things}.", structured)
    more = f" More follow: continue with cursor {page.next_cursor}." if page.next_cursor else ""
    marker = Marker(lines)
    count = f"{len(lines)} {thing if len(lines) == 1 else things}"
    text = f"{count}.{more} {marker.notice}\n\n{marker.enclose(chr(10).join(lines))}"
    return ToolAnswer(text, structured)
