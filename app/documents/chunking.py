"""Text into chunks that fit a model's input, cut where a reader would pause."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from app.documents.parsed import HeadingSpan, ParsedDocument, PartSpan

TokenCounter = Callable[[str], int]

_MAX_HEADING_PATH = 300
# The splitter's work on one piece of text grows with the square of its length in the worst case, so it gets
# windows: each some 20 chunks, so that the cuts between them hardly matter.
_WINDOW = 16_000
_WINDOW_CUTS = ("\n\n\n", "\n\n", "\n", ". ", " ")
# Words with the space before them; a longer run of signs counts as several.
_PIECE = re.compile(r"\s*\S{1,32}")
_CACHED_PIECES = 50_000
# A beginning that is too long says enough of the rest. Characters a token: as most texts have, and as hardly any has.
_CHARACTERS_A_TOKEN = (7, 12)
# A line's end inside a sentence, as in mails and PDF files: long line, no stop, and a word follows.
_WRAPPED = re.compile(r"^(?![#|>])(\S.{38,}[^\s.!?:|])\n(?=[^\W\d_]|[(\"'„“»])", re.M)
# Formats whose lines are meant as they are.
_LINE_FORMATS = frozenset({"code", "csv", "json", "jsonl", "xlsx"})
# Characters below which a page shares a chunk with the next one: a title, a full-page picture's caption.
_MIN_PAGE = 200
_SENTENCE_ENDS = ".!?:;…"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a document: always `document.text[char_start:char_end] == text`.

    Attributes:
        index: from 0, in the order of the text.
        page, page_end: on which it begins and ends, None for formats without pages. A chunk goes over a page's
            end only where a sentence does, or where the page has little text.
        heading: the headings that it stands under, topmost first, as in `Install > Linux`.
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
    """Cut a document into chunks of at most `max_tokens` that together hold all its text.

    Neighbouring chunks share up to `overlap_tokens`. Takes some 2 s of computing for a million characters,
    most of it in `count_tokens`: call it in a thread.
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
    """Offsets (start, end) of a text's passages of at most `max_tokens`; one passage when it fits whole."""
    if text.strip() and count_tokens(text) <= max_tokens:
        start = len(text) - len(text.lstrip())
        return [(start, len(text.rstrip()))]
    whole = [PartSpan(0, len(text), "text")]
    return [(span.start, span.end) for span in _split_spans(text, count_tokens, max_tokens, 0, whole, ())]


def _list_sections(document: ParsedDocument) -> Iterator[PartSpan]:
    """Cut where pages end, so that a chunk's page can be cited; no cut for other documents."""
    start = 0
    for _, page in pairwise(document.pages):
        if page.start - start >= _MIN_PAGE and not _runs_on(document.text, page.start):
            yield PartSpan(start, page.start, document.format)
            start = page.start
    yield PartSpan(start, len(document.text), document.format)


def _runs_on(text: str, page_start: int) -> bool:
    """Whether a sentence goes on over the page's end."""
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
    estimate = _build_estimate(count_tokens, max_tokens)
    prose = TextSplitter.from_callback(estimate, max_tokens, overlap_tokens)
    marked = MarkdownSplitter.from_callback(estimate, max_tokens, overlap_tokens)
    for section in sections:
        quick = marked if section.format == "markdown" else prose
        for window in _cut_windows(text, section, starts):
            shown = text[window.start : window.end]
            if section.format not in _LINE_FORMATS:
                # Same length, so offsets hold; only the splitter sees it.
                shown = _WRAPPED.sub(r"\1 ", shown)
            pieces = quick.chunk_indices(shown)
            spans = (_Span(window.start + at, window.start + at + len(piece)) for at, piece in pieces)
            yield from _order(part for span in spans for part in _fit(text, span, count_tokens, max_tokens))


def _order(spans: Iterable[_Span]) -> Iterator[_Span]:
    """Sort by start and leave out what another span holds: a piece that was halved can lie within the next."""
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
    """For counters that find more in a text than in its words, and for the splitter's own slips."""
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


@lru_cache(4)
def _cache_pieces(count_tokens: TokenCounter) -> TokenCounter:
    """Count words one by one, each once for all documents of a model: there are few, and counting one is dear."""
    frame = count_tokens("")
    return lru_cache(_CACHED_PIECES)(lambda piece: count_tokens(piece) - frame)


class _PrefixCount:
    """Sums up the tokens of a text's words. A text that the last one begins with, or that begins with it, is cheap:
    the splitter measures from where it stands to one possible end after the other."""

    def __init__(self, count_piece: TokenCounter) -> None:
        self._count_piece = count_piece
        self._text = ""
        self._ends: list[int] = []
        self._sums: list[int] = []

    def count(self, text: str) -> int:
        if not self._text.startswith(text):
            self._read(text)
        whole = bisect_right(self._ends, len(text))
        end, total = (self._ends[whole - 1], self._sums[whole - 1]) if whole else (0, 0)
        rest = text[end:]
        return total + self._count_piece(rest) if rest and not rest.isspace() else total

    def _read(self, text: str) -> None:
        # The last word may go on where the text does.
        known = max(0, len(self._ends) - 1) if text.startswith(self._text) else 0
        del self._ends[known:], self._sums[known:]
        pieces = _PIECE.findall(text, self._ends[-1] if known else 0)
        self._ends += accumulate(map(len, pieces), initial=self._ends.pop() if known else 0)
        self._sums += accumulate(map(self._count_piece, pieces), initial=self._sums.pop() if known else 0)
        self._text = text


def _build_estimate(count_tokens: TokenCounter, max_tokens: int) -> TokenCounter:
    """Count by words: exact for tokenizers that never cross a space, and far cheaper."""
    frame = count_tokens("")
    words = _PrefixCount(_cache_pieces(count_tokens))

    def estimate(text: str) -> int:
        for characters in _CHARACTERS_A_TOKEN:
            if len(text) > characters * max_tokens:
                beginning = frame + words.count(text[: characters * max_tokens])
                if beginning > max_tokens:
                    return beginning
        return frame + words.count(text)

    return estimate


def _cut_windows(text: str, section: PartSpan, starts: Sequence[int]) -> Iterator[_Span]:
    """Cut before the last heading that fits, else at the widest gap in the second half."""
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
