"""Collect the blocks of a document, with the positions of pages, headings and hidden text."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from app.documents.parsed import (
    HeadingSpan,
    HiddenReason,
    HiddenSpan,
    PageSpan,
    ParsedDocument,
    ParseLimits,
    PartSpan,
    RecognisedSpan,
    TableSpan,
)
from app.documents.readers.text import clean_text, collapse_spaces
from app.errors import UnreadableDocument

BLOCK = 200
"""Lines that are added together."""
MAX_TITLE = 300
MAX_PLACES = 10_000
"""Maximum places of a file without text; further ones are not named."""
MAX_TITLES = 4_000_000
"""Maximum characters of all headings together."""


class TextBuilder:
    """Joins cleaned blocks into one text; raises UnreadableDocument when text or headings exceed a limit."""

    def __init__(self, limits: ParseLimits) -> None:
        self._limits = limits
        self._titles_length = 0
        self._parts: list[str] = []
        self.length = 0
        self._headings: list[HeadingSpan] = []
        self._pages: list[PageSpan] = []
        self._page_start: int | None = None
        self._parts_within: list[PartSpan] = []
        self._pages_within = 0
        self._tables: list[TableSpan] = []
        self._hidden: list[HiddenSpan] = []
        self._recognised: list[RecognisedSpan] = []
        self._unread: list[int] = []
        self._unread_pages: list[int] = []

    def add(self, block: str, gap: str = "\n\n") -> int | None:
        """Append a block after `gap`; returns the offset at which it begins, or None if it is blank."""
        block = clean_text(block).strip("\n")
        if not block.strip():
            return None
        if self.length:
            self._append(gap)
        start = self.length
        self._append(block)
        self._page_start = start if self._page_start is None else self._page_start
        return start

    def add_lines(self, lines: Iterable[str]) -> None:
        """Append lines, in blocks: adding a block costs more than writing a line."""
        waiting = iter(lines)
        while block := list(islice(waiting, BLOCK)):
            self.add("\n".join(block), gap="\n")

    def add_heading(self, title: str, level: int) -> None:
        """Append a heading, which is hidden if a part of it is marked; chunks are cut first at the wider gap before
        it."""
        marks = take_marks(title)[1]
        title = collapse_spaces(remove_marks(title))
        start = self.add(title, gap="\n\n\n")
        if start is not None:
            self.mark_heading(start, title, level)
            if marks:
                self.mark_hidden(start, self.length, marks[0][2])

    def mark_page(self, number: int) -> PageSpan:
        """Record a page that has the text since the last one, if there is any."""
        span = PageSpan(number, self.length if self._page_start is None else self._page_start, self.length)
        self._page_start = None
        self._pages.append(span)
        if self._unread:
            self._unread_pages.append(number)
            self._unread.clear()
        return span

    def add_part(self, path: str, document: ParsedDocument) -> None:
        """Append a separate document, if it has text, under a heading with its path; its page numbers are not kept."""
        self._pages_within += document.total_pages or 0
        if self._pages_within > self._limits.max_pages:
            raise UnreadableDocument(
                f"the documents in the file have more than {self._limits.max_pages:,} pages together"
            )
        if not document.text:
            return
        first = self.length
        self.add_heading(path, 1)
        self.add_document(document, level=1)
        self._parts_within.append(PartSpan(first, self.length, document.format))

    def add_document(self, document: ParsedDocument, gap: str = "\n\n", *, level: int = 0) -> None:
        """Append a document whose headings are `level` levels lower; its page numbers are not kept."""
        if self.length and document.text:
            self._append(gap)
        start = self.length
        self._append(document.text)
        for heading in document.headings:
            self.mark_heading(start + heading.start, heading.title, heading.level + level)
        for table in document.tables:
            self.mark_table(start + table.start, start + table.header_end, start + table.end)
        for span in document.hidden:
            self.mark_hidden(start + span.start, start + span.end, span.reason)
        for part in document.recognised:
            self.mark_recognised(start + part.start, start + part.end)
        pages = [document.pages[number - 1].start for number in document.pages_without_text]
        for place in pages or document.places_without_text:
            self.mark_unread(start + place)

    def mark_heading(self, start: int, title: str, level: int) -> None:
        """Record a heading at an offset that is already written."""
        heading = HeadingSpan(start, level, title[:MAX_TITLE])
        self._headings.append(heading)
        self._titles_length += len(heading.title)
        if len(self._headings) > self._limits.max_headings:
            raise UnreadableDocument(f"the file has more than {self._limits.max_headings:,} headings")
        if self._titles_length > MAX_TITLES:
            raise UnreadableDocument(f"the file has more than {MAX_TITLES:,} characters of headings")

    def mark_headings(self, headings: Iterable[HeadingSpan]) -> str | None:
        """Record headings; returns the topmost one if there is only one, or the last one of level 0, which is a title
        and is not recorded."""
        title, topmost = None, []
        for heading in headings:
            if heading.level == 0:
                title = heading.title
                continue
            self.mark_heading(heading.start, heading.title, heading.level)
            if heading.level == 1:
                topmost.append(heading.title)
        return topmost[0] if title is None and len(topmost) == 1 else title

    def mark_table(self, start: int, header_end: int, end: int) -> None:
        """Record a table that is already written, as Markdown rows."""
        self._tables.append(TableSpan(start, header_end, end))
        if len(self._tables) > self._limits.max_tables:
            raise UnreadableDocument(f"the file has more than {self._limits.max_tables:,} tables")

    def extend_table(self, end: int) -> None:
        """Move the end of the last table to text that is already written."""
        table = self._tables[-1]
        self._tables[-1] = TableSpan(table.start, table.header_end, end)

    def mark_hidden(self, start: int, end: int, reason: HiddenReason) -> None:
        """Record text, already written, that a reader of the original does not see; at the limit, the last span
        grows."""
        last = self._hidden[-1] if self._hidden else None
        if last is not None and (
            (last.end >= start and last.reason == reason) or len(self._hidden) >= self._limits.max_hidden
        ):
            self._hidden[-1] = HiddenSpan(last.start, end, last.reason)
        else:
            self._hidden.append(HiddenSpan(start, end, reason))

    def mark_recognised(self, start: int, end: int) -> None:
        """Record text, already written, that was recognised on a picture."""
        if start < end:
            self._recognised.append(RecognisedSpan(start, end))

    def mark_unread(self, place: int | None = None) -> None:
        """Record a picture of text that was not recognised, by default after what is written: on the page that is
        marked next, or, in a file without pages, at this place."""
        if len(self._unread) < MAX_PLACES:
            self._unread.append(self.length if place is None else place)

    def finish(
        self,
        format_name: str,
        *,
        title: str | None = None,
        total_pages: int | None = None,
        pages_without_text: Sequence[int] = (),
        mail: Mapping[str, str] | None = None,
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
            tuple(self._tables),
            tuple(self._hidden),
            tuple(pages_without_text or self._unread_pages),
            tuple(self._unread),
            tuple(self._recognised),
            mail=mail or {},
        )

    def _append(self, text: str) -> None:
        self.length += len(text)
        self._limits.require_characters(self.length)
        self._parts.append(text)


def parse_plain(text: str, limits: ParseLimits) -> ParsedDocument:
    """Keep plain text as it is."""
    return parse_source(text, limits, "text")


def parse_source(
    text: str,
    limits: ParseLimits,
    name: str,
    find: Callable[[str], Iterable[HeadingSpan]] = lambda text: (),
    *,
    titled: bool = True,
) -> ParsedDocument:
    """Keep a text as it is, with the headings that `find` finds in it and, if `titled`, the title among them."""
    builder = TextBuilder(limits)
    builder.add(text)
    title = builder.mark_headings(find(builder.finish(name).text))
    return builder.finish(name, title=title if titled else None)


CLOSE = "\ufdd0"
OPEN: Mapping[HiddenReason, str] = {
    "hidden_element": "\ufdd1",
    "hidden_run": "\ufdd2",
    "tiny": "\ufdd3",
    "transparent": "\ufdd4",
    "off_page": "\ufdd5",
    "same_colour": "\ufdd6",
    "covered": "\ufdd7",
    "clipped": "\ufdd8",
}
"""One character for each mark: noncharacters of Unicode, which no text contains and which survive its cleaning."""

_REASONS = {mark: reason for reason, mark in OPEN.items()}
_MARK = re.compile(f"([{CLOSE}{''.join(_REASONS)}])")
_REFERENCE = re.compile(r"&#(?:x0{0,9}fdd[0-8]|0{0,9}(?:6497[6-9]|6498[0-4]));?", re.I)


def remove_marks(text: str) -> str:
    """A text of a file without characters that would be taken for marks."""
    return _MARK.sub("", text)


def remove_references(source: str) -> str:
    """The source of a page without marks and without references to such characters."""
    source = remove_marks(source)
    return _REFERENCE.sub("", source) if "&#" in source else source


def add_marked(builder: TextBuilder, text: str, gap: str = "\n\n") -> int | None:
    """Append a block, and record the text between its marks, which are not nested; returns where the block begins."""
    plain, spans = take_marks(text)
    leading = len(plain) - len(plain.lstrip("\n"))
    start = builder.add(plain, gap)
    if start is None:
        return None
    for first, last, reason in spans:
        hidden = plain[first:last]
        first += len(hidden) - len(hidden.lstrip())
        # Cleaning can shorten the text: it joins a character and its accent.
        end = min(start + first + len(hidden.strip()) - leading, builder.length)
        if start + first - leading < end:
            builder.mark_hidden(start + first - leading, end, reason)
    return start


def take_marks(text: str) -> tuple[str, list[tuple[int, int, HiddenReason]]]:
    """The text without its marks, with one space where a mark stands between two, and the marked spans."""
    first, *pieces = _MARK.split(text)
    parts = [first]
    spans: list[tuple[int, int, HiddenReason]] = []
    length = len(first)
    opened: tuple[int, HiddenReason] | None = None
    for piece in (*pieces, CLOSE):
        if piece in _REASONS:
            opened = (length, _REASONS[piece])
        elif piece == CLOSE:
            if opened is not None:
                spans.append((opened[0], length, opened[1]))
            opened = None
        elif piece:
            if piece[0] == " " and parts[-1][-1:] in {"", " ", "\n"}:
                piece = piece[1:]
            if piece:
                parts.append(piece)
                length += len(piece)
    return "".join(parts), spans
