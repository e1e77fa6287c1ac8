"""The part of a long content that is rendered for its snippet, so that the work does not grow with the content."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

WHOLE = 800
"""Characters up to which a content is rendered as a whole."""

BEFORE, AFTER = 200, 360
"""Characters that are rendered before and after the best words, at first, and as many more to the next paragraph.

Rendering takes 0.05 ms for a thousand characters, and a search has ten hits."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.M)


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a content; `opening` is a line that makes its start the same Markdown as in the content."""

    start: int
    end: int
    opening: str = ""

    @property
    def shift(self) -> int:
        """The offset in the content of the first character of `take`."""
        return self.start - len(self.opening)

    def take(self, content: str) -> str:
        """The text of the part, which can be rendered by itself."""
        return self.opening + content[self.start : self.end]


def find_region(content: str, first: int, last: int, extent: int, *, is_markdown: bool) -> Region:
    """The part around `first` to `last`, from one paragraph or line to another; `extent` multiplies its margins."""
    start, end = first - extent * BEFORE, last + extent * AFTER
    if len(content) <= WHOLE or (start <= 0 and end >= len(content)):
        return Region(0, len(content))
    if end < len(content):
        end = _find_edge(content.find, end, end + extent * AFTER) or end
    if start <= 0:
        return Region(0, min(end, len(content)))
    start = _find_edge(content.rfind, max(0, start - extent * BEFORE), start) or start
    if not is_markdown:
        return Region(start, min(end, len(content)))
    start = _leave_comment(content, start, first)
    return Region(start, min(end, len(content)), _find_opening(content, start))


def _find_edge(find: Callable[[str, int, int], int], start: int, end: int) -> int:
    """After the first of these that is found: an empty line, a line end, a space; 0 if none is found."""
    for edge in ("\n\n", "\n", " "):
        if (at := find(edge, start, end)) >= 0:
            return at + len(edge)
    return 0


def _leave_comment(content: str, start: int, first: int) -> int:
    if content.rfind("<!--", 0, start) > content.rfind("-->", 0, start):
        closing = content.find("-->", start, first)
        return closing + 3 if closing >= 0 else start
    return start


def _find_opening(content: str, start: int) -> str:
    """The fence of the code block that is open at `start`, or an empty head for the rows of a table."""
    opening = ""
    if "```" in content or "~~~" in content:
        for fence in _FENCE.finditer(content, 0, start):
            if not opening:
                opening = fence[1]
            elif fence[1].startswith(opening):
                opening = ""
    if opening:
        return f"{opening}\n"
    if content.startswith("|", start):
        cells = content.count("|", start, content.find("\n", start) if "\n" in content[start:] else None) - 1
        return f"|{' |' * cells}\n|{'-|' * cells}\n" if cells > 0 else ""
    return ""
