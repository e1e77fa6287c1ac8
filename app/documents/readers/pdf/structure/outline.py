"""The outline of a PDF: the titles that it names for each page."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.documents.readers.text import collapse_spaces

_MAX_ITEMS = 5_000
_MAX_OUTLINE_DEPTH = 6
_NUMBER = re.compile(
    r"^(?:(?:chapter|section|appendix|part)\s+)?(?:\d{1,3}|[A-Z])(?:\.\d{1,3})*[.:)]?\s+(?=\S)", re.I
)
_MOST_LINES = 3
_MOST_LENGTH = 400
_NO_LETTERS = re.compile(r"[\W_]+")


@dataclass(slots=True)
class OutlineItem:
    """A title of the outline; `found` when a line of its page is this title."""

    title: str
    level: int
    found: bool = False


class PageOutline:
    """The titles of one page."""

    def __init__(self, items: list[OutlineItem]) -> None:
        self._items: dict[str, list[OutlineItem]] = defaultdict(list)
        for item in items:
            for key in dict.fromkeys(_list_keys(item.title)):
                self._items[key].append(item)

    def __bool__(self) -> bool:
        return bool(self._items)

    def take(self, text: str) -> int | None:
        """The level of the first title that is this text and was not found yet."""
        for key in _list_keys(text):
            for item in self._items.get(key, ()):
                if not item.found:
                    item.found = True
                    return item.level
        return None

    def find(self, lines: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        """The titles among lines, as (first line, last line, level)."""
        for place in range(len(lines) if self else 0):
            joined = ""
            for end in range(place, min(place + _MOST_LINES, len(lines))):
                joined = f"{joined} {lines[end]}"
                if len(joined) > _MOST_LENGTH:
                    break
                level = self.take(joined)
                if level is not None:
                    yield place, end, level
                    break


def read_outline(document: Any, pages: int) -> dict[int, list[OutlineItem]]:
    """The titles by index of their page, up to a limit."""
    found: dict[int, list[OutlineItem]] = defaultdict(list)
    for count, bookmark in enumerate(document.get_toc(max_depth=_MAX_OUTLINE_DEPTH)):
        if count >= _MAX_ITEMS:
            break
        title = collapse_spaces(bookmark.get_title())
        destination = bookmark.get_dest()
        index = destination.get_index() if destination else None
        if title and index is not None and 0 <= index < pages:
            found[index].append(OutlineItem(title, bookmark.level + 1))
    return found


def _list_keys(title: str) -> Iterator[str]:
    """The title, with its number and without it, as letters and digits only."""
    title = title.strip()
    for text in (title, _NUMBER.sub("", title)):
        if key := _NO_LETTERS.sub("", text).casefold():
            yield key
