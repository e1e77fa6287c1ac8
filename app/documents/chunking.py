"""Cuts text into chunks that fit a model's input, at places where a reader would pause."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from app.documents.estimate import TokenCounter, build_estimate
from app.documents.parsed import HeadingSpan, ParsedDocument, PartSpan

_MAX_HEADING_PATH = 300
# In the worst case the splitter's work grows with the square of the text's length, so it receives windows. A
# window holds about 20 chunks, so that the cuts between windows hardly matter.
_WINDOW = 16_000
_WINDOW_CUTS = ("\n\n\n", "\n\n", "\n", ". ", " ")
# A line break inside a sentence, as in emails and PDF files: a long line without a full stop, then a word.
_WRAPPED = re.compile(r"^(?![#|>])(\S.{38,}[^\s.!?:|])\n(?=[^\W\d_]|[(\"'„“»])", re.M)
# Formats in which line breaks are significant.
_LINE_FORMATS = frozenset({"code", "csv", "json", "jsonl", "xlsx"})
# A page with fewer characters shares a chunk with the next one: a title, the caption of a full-page picture.
_MIN_PAGE = 200
_SENTENCE_ENDS = ".!?:;…"
_LINE = re.compile(r"\S.*")
# A heading's underline, or a code block's first line.
_OPENING = re.compile(r"=+|-+|(?:`{3,}|~{3,}).*")
# Characters at which the splitter would cut; they are hidden from it in the lines that open a section.
_STOPS = str.maketrans("\n.!?…。！？", " ,,,,,,,")
# The remainder of a cut is joined to the next chunk when it is smaller than this fraction of a chunk.
_SMALL = 0.25


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a document: always `document.text[char_start:char_end] == text`.

    Attributes:
        index: from 0, in the order of the text.
        page, page_end: the pages on which it begins and ends, None for formats without pages. A chunk crosses a
            page break only where a sentence does, or where the page has little text.
        heading: the headings above it, topmost first, as in `Install > Linux`.
    """

    index: int
    text: str
    char_start: int
    char_end: int
    page: int | None
    page_end: int | None
    heading: str | None


class _Span(NamedTuple):
    start: int
    end: int


def split(
    document: ParsedDocument, count_tokens: TokenCounter, max_tokens: int, overlap_tokens: int = 0
) -> list[Chunk]:
    """Cut a document into chunks of at most `max_tokens` that together contain all of its text.

    Neighbouring chunks share up to `overlap_tokens`. Takes about 2 s of CPU time for a million characters,
    mostly in `count_tokens`: call it in a thread.
    """
    heading_starts = [heading.start for heading in document.headings]
    sections = document.parts or tuple(_list_sections(document))
    spans = _split_spans(document.text, count_tokens, max_tokens, overlap_tokens, sections, heading_starts)
    paths = _build_paths(document.headings)
    chunks = []
    for index, (start, end) in enumerate(spans):
        above = bisect_right(heading_starts, start) - 1
        chunks.append(
            Chunk(
                index=index,
                text=document.text[start:end],
                char_start=start,
                char_end=end,
                page=document.page_at(start),
                page_end=document.page_at(end - 1),
                heading=paths[above] if above >= 0 else None,
            )
        )
    return chunks


def split_text(text: str, count_tokens: TokenCounter, max_tokens: int) -> list[tuple[int, int]]:
    """Offsets (start, end) of a text's passages of at most `max_tokens`; one passage if the whole text fits."""
    if text.strip() and count_tokens(text) <= max_tokens:
        start = len(text) - len(text.lstrip())
        return [(start, len(text.rstrip()))]
    whole = [PartSpan(0, len(text), "text")]
    return [(span.start, span.end) for span in _split_spans(text, count_tokens, max_tokens, 0, whole, ())]


def _list_sections(document: ParsedDocument) -> Iterator[PartSpan]:
    """Cut at page breaks, so that a chunk's page can be cited; other documents are one section."""
    start = 0
    for _, page in pairwise(document.pages):
        if page.start - start >= _MIN_PAGE and not _runs_on(document.text, page.start):
            yield PartSpan(start, page.start, document.format)
            start = page.start
    yield PartSpan(start, len(document.text), document.format)


def _runs_on(text: str, page_start: int) -> bool:
    """Whether a sentence continues across the page break."""
    before = text[max(0, page_start - 20) : page_start].rstrip()
    return text[page_start : page_start + 1].islower() and not before.endswith(tuple(_SENTENCE_ENDS))


def _split_spans(
    text: str,
    count_tokens: TokenCounter,
    max_tokens: int,
    overlap_tokens: int,
    sections: Sequence[PartSpan],
    starts: Sequence[int],
) -> Iterator[_Span]:
    if max_tokens < 1 or not 0 <= overlap_tokens < max_tokens:
        raise ValueError("max_tokens must be positive and overlap_tokens smaller than it")
    cutter = _Cutter(text, starts, build_estimate(count_tokens, max_tokens), max_tokens, overlap_tokens)
    for section in sections:
        spans = cutter.cut(section)
        yield from _order(part for span in spans for part in _fit(text, span, count_tokens, max_tokens))


class _Cutter:
    """Cuts the sections of one text into spans that fit according to the estimate."""

    def __init__(
        self, text: str, starts: Sequence[int], estimate: TokenCounter, max_tokens: int, overlap_tokens: int
    ) -> None:
        self._text = text
        self._starts = starts
        self._estimate = estimate
        self._small = max_tokens * _SMALL
        self._prose = TextSplitter.from_callback(estimate, max_tokens, overlap_tokens)
        self._marked = MarkdownSplitter.from_callback(estimate, max_tokens, overlap_tokens)

    def cut(self, section: PartSpan) -> Iterator[_Span]:
        """Spans in order. None is only a heading or a code block's first line, unless the section has no more text.

        The splitter isolates such lines when the paragraph below does not fit with them. They are cut again
        together with the next span; a small remainder of that is cut together with the span after it.
        """
        waiting: _Span | None = None
        for span in self._cut_first(section):
            left_over = False
            if waiting is not None and (self._opens(waiting) or not self._is_heading(span.start)):
                *whole, span = self._cut_together(waiting, span, section)
                yield from whole
                left_over = bool(whole) and self._is_small(span)
            elif waiting is not None:
                yield waiting
            waiting = span if left_over or self._opens(span) else None
            if waiting is None:
                yield span
        if waiting is not None:
            yield waiting

    def _cut_first(self, section: PartSpan) -> Iterator[_Span]:
        splitter = self._marked if section.format == "markdown" else self._prose
        for window in _cut_windows(self._text, section, self._starts):
            yield from _split(splitter, window.start, self._show(window, section))

    def _cut_together(self, early: _Span, late: _Span, section: PartSpan) -> list[_Span]:
        both = _Span(min(early.start, late.start), late.end)
        shown = self._show(both, section)
        if self._opens(early):
            body = self._find_body(both) - both.start
            shown = shown[:body].translate(_STOPS) + shown[body:]
        return _split(self._prose, both.start, shown)

    def _show(self, span: _Span, section: PartSpan) -> str:
        """The text as the splitter sees it, of the same length, so that offsets stay valid."""
        shown = self._text[span.start : span.end]
        return shown if section.format in _LINE_FORMATS else _WRAPPED.sub(r"\1 ", shown)

    def _opens(self, span: _Span) -> bool:
        return self._find_body(span) == span.end

    def _find_body(self, span: _Span) -> int:
        """Where the first line starts that is neither a heading nor a code block's first line; the end if none is."""
        for line in _LINE.finditer(self._text, span.start, span.end):
            if not self._is_heading(line.start()) and not _OPENING.fullmatch(line.group()):
                return line.start()
        return span.end

    def _is_heading(self, start: int) -> bool:
        at = bisect_left(self._starts, start)
        return at < len(self._starts) and self._starts[at] == start

    def _is_small(self, span: _Span) -> bool:
        return self._estimate(self._text[span.start : span.end]) < self._small


def _split(splitter: TextSplitter | MarkdownSplitter, start: int, shown: str) -> list[_Span]:
    return [_Span(start + at, start + at + len(piece)) for at, piece in splitter.chunk_indices(shown)]


def _order(spans: Iterable[_Span]) -> Iterator[_Span]:
    """Sort by start and drop spans inside other spans: a halved piece can lie within the next."""
    end = -1
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.end > end:
            yield span
            end = span.end


def _fit(text: str, span: _Span, count_tokens: TokenCounter, max_tokens: int) -> Iterator[_Span]:
    if count_tokens(text[span.start : span.end]) <= max_tokens:
        yield span
    else:
        yield from _halve(text, span, count_tokens, max_tokens)


def _halve(text: str, span: _Span, count_tokens: TokenCounter, max_tokens: int) -> Iterator[_Span]:
    """For counters that count more in a text than in its words, and for errors of the splitter."""
    piece = text[span.start : span.end]
    start = span.start + len(piece) - len(piece.lstrip())
    end = span.start + len(piece.rstrip())
    if start >= end:
        return
    if end - start == 1 or count_tokens(text[start:end]) <= max_tokens:
        yield _Span(start, end)
        return
    quarter = (end - start) // 4
    gaps = (text.rfind(gap, start + quarter, end - quarter) + len(gap) for gap in _WINDOW_CUTS)
    middle = next((gap for gap in gaps if gap > start + quarter), (start + end) // 2)
    yield from _halve(text, _Span(start, middle), count_tokens, max_tokens)
    yield from _halve(text, _Span(middle, end), count_tokens, max_tokens)


def _cut_windows(text: str, section: PartSpan, starts: Sequence[int]) -> Iterator[_Span]:
    """Cut before the last heading that fits, otherwise at the widest gap in the second half."""
    position = section.start
    while section.end - position > _WINDOW:
        earliest, latest = position + _WINDOW // 2, position + _WINDOW
        index = bisect_right(starts, latest) - 1
        if index >= 0 and starts[index] > earliest:
            end = starts[index]
        else:
            cuts = (text.rfind(gap, earliest, latest) + len(gap) for gap in _WINDOW_CUTS)
            end = next((cut for cut in cuts if cut > earliest), latest)
        yield _Span(position, end)
        position = end
    yield _Span(position, section.end)


def _build_paths(headings: Sequence[HeadingSpan]) -> list[str]:
    paths = []
    open_headings: list[HeadingSpan] = []
    for heading in headings:
        while open_headings and open_headings[-1].level >= heading.level:
            open_headings.pop()
        open_headings.append(heading)
        paths.append(" > ".join(item.title for item in open_headings)[:_MAX_HEADING_PATH])
    return paths
