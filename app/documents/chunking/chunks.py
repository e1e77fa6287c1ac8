"""Chunks: parts of a document with their places, pages and headings."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.documents.chunking.cutting import Cutter, Span
from app.documents.chunking.sections import Piece, cut_section, list_sections
from app.documents.estimate import TokenCounter
from app.documents.parsed import HeadingSpan, ParsedDocument, PartSpan

MAX_HEADINGS = 10
"""Most headings of a chunk: no document needs more levels, and a hostile one has many."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a document: always `lead + document.text[char_start:char_end] == text`.

    Attributes:
        index: from 0, in the order of the text.
        lead: the header of a table that the chunk continues, repeated; "" for all other chunks.
        page, page_end: the pages on which it begins and ends, None for formats without pages. A chunk crosses a
            page break only where a sentence or a table does, or where the page has little text.
        headings: the headings above it, topmost first; the innermost `MAX_HEADINGS` of them. For a chunk of
            several sections, those that they share.
    """

    index: int
    text: str
    char_start: int
    char_end: int
    page: int | None
    page_end: int | None
    headings: tuple[str, ...]
    lead: str = ""


def split(
    document: ParsedDocument, count_tokens: TokenCounter, max_tokens: int, overlap_tokens: int = 0
) -> list[Chunk]:
    """Cut a document into chunks of at most `max_tokens` that together contain all of its text.

    Neighbouring chunks share up to `overlap_tokens`. Takes about 2 s of CPU time for a million characters,
    mostly in `count_tokens`: call it in a thread.
    """
    starts = [heading.start for heading in document.headings]
    cutter = Cutter(document.text, starts, count_tokens, max_tokens, overlap_tokens)
    outline = _Outline(document.headings)
    chunks = []
    for index, (start, end, lead) in enumerate(_cut(document, cutter)):
        chunks.append(
            Chunk(
                index=index,
                text=lead + document.text[start:end],
                char_start=start,
                char_end=end,
                page=document.page_at(start),
                page_end=document.page_at(end - 1),
                headings=outline.find_shared(cutter.find_body(Span(start, end)), end)[-MAX_HEADINGS:],
                lead=lead,
            )
        )
    return chunks


def split_text(text: str, count_tokens: TokenCounter, max_tokens: int) -> list[tuple[int, int]]:
    """Offsets (start, end) of a text's passages of at most `max_tokens`; one passage if the whole text fits."""
    if text.strip() and count_tokens(text) <= max_tokens:
        start = len(text) - len(text.lstrip())
        return [(start, len(text.rstrip()))]
    cutter = Cutter(text, (), count_tokens, max_tokens, 0)
    return [(span.start, span.end) for span in cutter.cut(PartSpan(0, len(text), "text"))]


def _cut(document: ParsedDocument, cutter: Cutter) -> Iterator[Piece]:
    for section in list_sections(document, cutter):
        yield from cut_section(cutter, section, document.tables)


class _Outline:
    """The path of headings at each place of a text."""

    def __init__(self, headings: Sequence[HeadingSpan]) -> None:
        self._starts = [heading.start for heading in headings]
        self._paths: list[tuple[str, ...]] = []
        open_headings: list[HeadingSpan] = []
        for heading in headings:
            while open_headings and open_headings[-1].level >= heading.level:
                open_headings.pop()
            open_headings.append(heading)
            self._paths.append(tuple(item.title for item in open_headings[-2 * MAX_HEADINGS :]))

    def find_shared(self, body: int, end: int) -> tuple[str, ...]:
        """The headings above `body`, as far as all sections that begin between it and `end` are below them."""
        above = bisect_right(self._starts, body) - 1
        if above < 0:
            return ()
        path = self._paths[above]
        shared = path
        for later in self._paths[above + 1 : bisect_left(self._starts, end)]:
            same = 0
            while same < min(len(shared), len(later)) and shared[same] == later[same]:
                same += 1
            shared = shared[:same]
        return shared or path
