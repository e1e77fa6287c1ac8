"""Collects the blocks of a document and records where pages and headings begin."""

from __future__ import annotations

from app.documents.parsed import HeadingSpan, PageSpan, ParsedDocument, ParseLimits, PartSpan
from app.documents.readers.text import clean_text, collapse_spaces
from app.errors import UnreadableDocument

MAX_TITLE = 300
MAX_TITLES = 4_000_000
"""Maximum characters of all headings together."""


class TextBuilder:
    """Joins cleaned blocks into one text; raises UnreadableDocument when text or headings exceed a limit."""

    def __init__(self, limits: ParseLimits) -> None:
        self._max = limits.max_characters
        self._max_headings = limits.max_headings
        self._titles_length = 0
        self._parts: list[str] = []
        self._length = 0
        self._headings: list[HeadingSpan] = []
        self._pages: list[PageSpan] = []
        self._parts_within: list[PartSpan] = []

    def add(self, block: str, gap: str = "\n\n") -> int | None:
        """Append a block after `gap`; returns the offset at which it begins, or None if it is blank."""
        block = clean_text(block).strip("\n")
        if not block.strip():
            return None
        if self._parts:
            self._append(gap)
        start = self._length
        self._append(block)
        return start

    def add_heading(self, title: str, level: int) -> None:
        """Append a heading; chunks are cut first at the wider gap before it."""
        title = collapse_spaces(title)
        start = self.add(title, gap="\n\n\n")
        if start is not None:
            self.mark_heading(start, title, level)

    def add_page(self, number: int, text: str) -> PageSpan:
        """Append one page, which may be blank."""
        start = self.add(text)
        span = PageSpan(number, self._length if start is None else start, self._length)
        self._pages.append(span)
        return span

    def add_part(self, path: str, document: ParsedDocument) -> None:
        """Append a separate document under a heading with its path; its page numbers are not kept."""
        first = self._length
        self.add_heading(path, 1)
        self._append("\n\n")
        start = self._length
        self._append(document.text)
        for heading in document.headings:
            self.mark_heading(start + heading.start, heading.title, heading.level + 1)
        self._parts_within.append(PartSpan(first, self._length, document.format))

    def mark_heading(self, start: int, title: str, level: int) -> None:
        """Record a heading at an offset that is already written."""
        heading = HeadingSpan(start, level, title[:MAX_TITLE])
        self._headings.append(heading)
        self._titles_length += len(heading.title)
        if len(self._headings) > self._max_headings:
            raise UnreadableDocument(f"the file has more than {self._max_headings:,} headings")
        if self._titles_length > MAX_TITLES:
            raise UnreadableDocument(f"the file has more than {MAX_TITLES:,} characters of headings")

    def finish(
        self, format_name: str, *, title: str | None = None, total_pages: int | None = None
    ) -> ParsedDocument:
        """The document built so far."""
        title = collapse_spaces(title or "")[:MAX_TITLE] or None
        headings = tuple(sorted(self._headings, key=lambda heading: heading.start))
        return ParsedDocument(
            format_name,
            "".join(self._parts),
            tuple(self._pages),
            headings,
            title,
            total_pages,
            tuple(self._parts_within),
        )

    def _append(self, text: str) -> None:
        self._length += len(text)
        if self._length > self._max:
            raise UnreadableDocument(f"the file has more than {self._max:,} characters of text")
        self._parts.append(text)
