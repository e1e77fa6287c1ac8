"""Cut text into spans that fit a model's input, at places where a reader would pause."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from app.documents.parsed import PartSpan

TokenCounter = Callable[[str], int]

# Words with the preceding space; a longer run of characters counts as several words.
_PIECE = re.compile(r"\s*\S{1,32}")
_CACHED_PIECES = 50_000
MOST_CHARACTERS_A_TOKEN = 12
"""Characters for each token that hardly any text exceeds."""
# If the beginning of a text is already too long, the rest is not counted. The beginning has this many characters for
# each token: as in most texts, then as in hardly any.
_CHARACTERS_A_TOKEN = (7, MOST_CHARACTERS_A_TOKEN)


@lru_cache(4)
def _cache_pieces(count_tokens: TokenCounter) -> TokenCounter:
    """Count words one by one, each once for all documents of a model: there are few, and counting is expensive."""
    frame = count_tokens("")
    return lru_cache(_CACHED_PIECES)(lambda piece: count_tokens(piece) - frame)


class _PrefixCount:
    """Adds up the tokens of a text's words. Cheap for a prefix or an extension of the last text: the splitter measures
    from its position to one possible end after another."""

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
        # The last word may continue in the longer text.
        known = max(0, len(self._ends) - 1) if text.startswith(self._text) else 0
        del self._ends[known:], self._sums[known:]
        pieces = _PIECE.findall(text, self._ends[-1] if known else 0)
        self._ends += accumulate(map(len, pieces), initial=self._ends.pop() if known else 0)
        self._sums += accumulate(map(self._count_piece, pieces), initial=self._sums.pop() if known else 0)
        self._text = text


def build_estimate(count_tokens: TokenCounter, max_tokens: int) -> TokenCounter:
    """Build a count by words: exact for tokenizers whose tokens never cross a space, and much cheaper."""
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


# In the worst case the splitter's work grows with the square of the text's length, so it receives windows. A
# window holds about 20 chunks, so that the cuts between windows hardly matter.
_WINDOW = 16_000
_WINDOW_CUTS = ("\n\n\n", "\n\n", "\n", ". ", " ")
# A line break inside a sentence, as in emails and PDF files: a long line without a full stop, then a word. The pattern
# begins with the break, since one that begins with the line would read each line twice.
_WRAPPED = re.compile(r"\n(?<=[^\s.!?:|]\n)(?=[^\W\d_]|[(\"'„“»])")
_WRAPPED_LINE = 40
"""Least characters of a line that continues in the next."""
_UNWRAPPED = "#|>"
"""Characters that begin a heading, a row of a table and a quotation, whose lines end where they end."""
# Formats in which line breaks are significant.
_LINE_FORMATS = frozenset({"code", "csv", "json", "jsonl", "lockfile", "sourcemap", "xlsx"})
# Formats whose blocks must not be cut in the middle.
_MARKED_FORMATS = _LINE_FORMATS | {"markdown"}
_LINE = re.compile(r"\S.*")
# A heading's underline, or a code block's first line.
_OPENING = re.compile(r"=+|-+|(?:`{3,}|~{3,}).*")
# Characters at which the splitter would cut; they are hidden from it in the lines that open a section.
_STOPS = str.maketrans("\n.!?…。！？", " ,,,,,,,")
# The remainder of a cut is joined to the next chunk when it is smaller than this fraction of a chunk.
_SMALL = 0.25


class Span(NamedTuple):
    """A part of a text; `lead` is the header of the table that it continues."""

    start: int
    end: int
    lead: str = ""


class Cutter:
    """Cuts parts of one text into spans of at most `max_tokens`; `starts` are the places of its headings."""

    def __init__(
        self, text: str, starts: Sequence[int], count_tokens: TokenCounter, max_tokens: int, overlap_tokens: int
    ) -> None:
        if max_tokens < 1 or not 0 <= overlap_tokens < max_tokens:
            raise ValueError("max_tokens must be positive and overlap_tokens smaller than it")
        self.text = text
        self.max_tokens = max_tokens
        self.estimate = build_estimate(count_tokens, max_tokens)
        self._starts = starts
        self._count = count_tokens
        self._prose = TextSplitter.from_callback(self.estimate, max_tokens, overlap_tokens)
        self._marked = MarkdownSplitter.from_callback(self.estimate, max_tokens, overlap_tokens)

    def narrow(self, lead: str) -> Cutter:
        """A cutter of the same text whose spans leave room for a text before them."""
        left = max(1, self.max_tokens - self._count(lead))
        return Cutter(self.text, self._starts, self._count, left, 0)

    def cut(self, section: PartSpan) -> Iterator[Span]:
        """Spans in order that together contain the section's text."""
        cut = self._even_out(self._cut_to_estimate(section), section)
        spans = _order(part for span in cut for part in self.fit(span))
        yield from map(self._indent, spans) if section.format == "code" else spans

    def _indent(self, span: Span) -> Span:
        """The span with the indentation of its first line, if it still fits."""
        begun = self.text.rfind("\n", 0, span.start) + 1
        if begun == span.start or not self.text[begun : span.start].isspace():
            return span
        return Span(begun, span.end) if self.fits(self.text[begun : span.end]) else span

    def fit(self, span: Span, lead: str = "") -> Iterator[Span]:
        """The span, or parts of it, if it has more tokens than were estimated; `lead` stands before each."""
        if self.fits(lead + self.text[span.start : span.end]):
            yield span
        else:
            yield from _halve(self.text, span, lambda text: self.fits(lead + text))

    def fits(self, text: str) -> bool:
        """Whether a text has at most `max_tokens`."""
        return self._count(text) <= self.max_tokens

    def is_small(self, span: Span) -> bool:
        """Whether a span is too small for a chunk, if it can be part of another one."""
        return self.estimate(self.text[span.start : span.end]) < self.max_tokens * _SMALL

    def find_body(self, span: Span) -> int:
        """The start of the first line that is neither a heading nor opens a code block; the end if there is none."""
        for line in _LINE.finditer(self.text, span.start, span.end):
            if not self._is_heading(line.start()) and not _OPENING.fullmatch(line.group()):
                return line.start()
        return span.end

    def _cut_to_estimate(self, section: PartSpan) -> Iterator[Span]:
        """Spans of which none is only a heading or a code block's first line, unless the section has no more text.

        The splitter isolates such lines when the paragraph below does not fit with them. They are cut again
        together with the next span; a small remainder of that is cut together with the span after it.
        """
        waiting: Span | None = None
        for span in self._cut_first(section):
            left_over = False
            if waiting is not None and (self._opens(waiting) or not self._is_heading(span.start)):
                *whole, span = self._cut_together(waiting, span, section)
                yield from whole
                left_over = bool(whole) and self.is_small(span)
            elif waiting is not None:
                yield waiting
            waiting = span if left_over or self._opens(span) else None
            if waiting is None:
                yield span
        if waiting is not None:
            yield waiting

    def _even_out(self, spans: Iterable[Span], section: PartSpan) -> list[Span]:
        """The spans; where a small remainder follows a larger one, both are cut again near their middle: a remainder of
        a few words is found by its headings alone, before the text that answers."""
        pieces: list[Span] = []
        for span in spans:
            if pieces and self._is_remainder(pieces[-1], span, section):
                before = pieces.pop()
                body = self.find_body(before)
                shown = self._show(Span(body, span.end), section)
                middle = _find_gap(shown)
                end = body + len(shown[:middle].rstrip())
                pieces.append(Span(before.start, end))
                span = Span(body + middle, span.end)
            pieces.append(span)
        return pieces

    def _is_remainder(self, early: Span, late: Span, section: PartSpan) -> bool:
        """Whether a span is a small rest of the section that the span before it begins."""
        if section.format in _MARKED_FORMATS or early.end > late.start:
            return False
        if 2 * (late.end - late.start) > early.end - early.start or not self.is_small(late):
            return False
        first = bisect_right(self._starts, self.find_body(early) - 1)
        return first == bisect_left(self._starts, late.end)

    def _cut_first(self, section: PartSpan) -> Iterator[Span]:
        splitter = self._marked if section.format == "markdown" else self._prose
        for window in _cut_windows(self.text, section, self._starts):
            yield from _split(splitter, window.start, self._show(window, section))

    def _cut_together(self, early: Span, late: Span, section: PartSpan) -> list[Span]:
        both = Span(min(early.start, late.start), late.end)
        shown = self._show(both, section)
        if self._opens(early):
            body = self.find_body(both) - both.start
            shown = shown[:body].translate(_STOPS) + shown[body:]
        return _split(self._prose, both.start, shown)

    def _show(self, span: Span, section: PartSpan) -> str:
        """The text as the splitter sees it, of the same length, so that offsets stay valid."""
        shown = self.text[span.start : span.end]
        return shown if section.format in _LINE_FORMATS else unwrap(shown)

    def _opens(self, span: Span) -> bool:
        return self.find_body(span) == span.end

    def _is_heading(self, start: int) -> bool:
        at = bisect_left(self._starts, start)
        return at < len(self._starts) and self._starts[at] == start


def unwrap(text: str) -> str:
    """The text with spaces in place of line breaks inside sentences, in linear time."""

    def replace(found: re.Match[str]) -> str:
        start = text.rfind("\n", 0, found.start()) + 1
        if found.start() - start < _WRAPPED_LINE or text[start].isspace() or text[start] in _UNWRAPPED:
            return "\n"
        return " "

    return _WRAPPED.sub(replace, text)


def _split(splitter: TextSplitter | MarkdownSplitter, start: int, shown: str) -> list[Span]:
    return [Span(start + at, start + at + len(piece)) for at, piece in splitter.chunk_indices(shown)]


def _order(spans: Iterable[Span]) -> Iterator[Span]:
    """Sort by start and drop spans inside other spans: a halved piece can lie within the next."""
    end = -1
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.end > end:
            yield span
            end = span.end


def _halve(text: str, span: Span, fits: Callable[[str], bool]) -> Iterator[Span]:
    """For counters that count more in a text than in its words, and for errors of the splitter."""
    piece = text[span.start : span.end]
    start = span.start + len(piece) - len(piece.lstrip())
    end = span.start + len(piece.rstrip())
    if start >= end:
        return
    if end - start == 1 or fits(text[start:end]):
        yield Span(start, end)
        return
    middle = start + _find_gap(text[start:end])
    yield from _halve(text, Span(start, middle), fits)
    yield from _halve(text, Span(middle, end), fits)


def _find_gap(text: str) -> int:
    """The end of the widest gap in the middle half of a text."""
    quarter = len(text) // 4
    return _find_widest(text, quarter, len(text) - quarter) or len(text) // 2


def _find_widest(text: str, earliest: int, latest: int) -> int:
    """The end of the last of the widest gaps between two places, 0 if there is none."""
    gaps = (text.rfind(gap, earliest, latest) + len(gap) for gap in _WINDOW_CUTS)
    return next((gap for gap in gaps if gap > earliest), 0)


def _cut_windows(text: str, section: PartSpan, starts: Sequence[int]) -> Iterator[Span]:
    """Cut before the last heading that fits, otherwise at the widest gap in the second half."""
    position = section.start
    while section.end - position > _WINDOW:
        earliest, latest = position + _WINDOW // 2, position + _WINDOW
        index = bisect_right(starts, latest) - 1
        if index >= 0 and starts[index] > earliest:
            end = starts[index]
        else:
            end = _find_widest(text, earliest, latest) or latest
        yield Span(position, end)
        position = end
    yield Span(position, section.end)
