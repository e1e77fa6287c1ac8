"""The result of parsing a file: its text, and the positions of its pages and headings."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageSpan:
    """Page `number` (from 1) covers `text[start:end]`; the span of a blank page is empty."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class HeadingSpan:
    """A heading that begins at `text[start]`; `level` is 1 for the topmost."""

    start: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class PartSpan:
    """A separate file in `text[start:end]`, read as the `DocumentFormat` named `format`."""

    start: int
    end: int
    format: str


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A file's normalised text; all offsets are `str` indices into `text`.

    Attributes:
        format: name of the `DocumentFormat` as which it was read.
        text: NFC, line feeds only, no control characters except tab and line feed.
        pages: in order, empty for formats without pages; a slide is a page.
        headings: in order of `start`.
        title: the document's own title, if it has one.
        total_pages: None for formats without pages.
        parts: the members of an archive, in order; empty for other formats.
    """

    format: str
    text: str
    pages: tuple[PageSpan, ...] = ()
    headings: tuple[HeadingSpan, ...] = ()
    title: str | None = None
    total_pages: int | None = None
    parts: tuple[PartSpan, ...] = ()

    def page_at(self, offset: int) -> int | None:
        """Number of the page that contains `offset`, None for formats without pages."""
        index = bisect_right(self.pages, offset, key=lambda page: page.start) - 1
        return self.pages[index].number if index >= 0 else None


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """Limits on reading one file. The defaults are ten times what large real documents need.

    Attributes:
        seconds: of wall-clock time, and of CPU time.
        memory_bytes: address space of the parsing process; 128 MiB is enough for ordinary files.
        max_pages: of a PDF, or slides of a PPTX; all members of an archive together.
        max_decompressed_bytes: of a ZIP container: DOCX, PPTX, XLSX, or an archive with all its members.
        max_characters: of extracted text.
        max_headings: of a file; all members of an archive together.
    """

    seconds: float = 60.0
    memory_bytes: int = 1 << 30
    max_pages: int = 5_000
    max_decompressed_bytes: int = 256 << 20
    max_characters: int = 20_000_000
    max_headings: int = 100_000
