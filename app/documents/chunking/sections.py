"""Cuts a document into sections of one subject: where its pages end and its headings begin.

Small sections next to each other stay together, because a chunk of few words is found by chance.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

from app.documents.chunking.cutting import Cutter, Span
from app.documents.estimate import MOST_CHARACTERS_A_TOKEN
from app.documents.parsed import ParsedDocument, PartSpan

# A page with fewer characters shares a chunk with the next one: a title, the caption of a full-page picture.
_MIN_PAGE = 200
_SENTENCE_ENDS = ".!?:;…"
# Neighbouring sections below one heading stay together up to this fraction of a chunk.
_TOGETHER = 0.25


class _Section(NamedTuple):
    """Text between two cuts; `level` is that of its topmost heading, 0 for text without a heading."""

    start: int
    end: int
    level: int
    tokens: float
    is_empty: bool


def list_sections(document: ParsedDocument, cutter: Cutter) -> Iterator[PartSpan]:
    """The sections in order; together they are the text."""
    cuts = _list_cuts(document)
    if not cuts:
        yield PartSpan(0, len(document.text), document.format)
        return
    parts = document.parts or (PartSpan(0, len(document.text), document.format),)
    for part in parts:
        inside = cuts[bisect_right(cuts, part.start) : bisect_left(cuts, part.end)]
        yield from _join(document, cutter, part, [part.start, *inside, part.end])


def _list_cuts(document: ParsedDocument) -> list[int]:
    pages = {page.start for _, page in pairwise(document.pages) if not _runs_on(document, page.start)}
    return sorted(pages | {heading.start for heading in document.headings})


def _runs_on(document: ParsedDocument, page_start: int) -> bool:
    """Whether a sentence or a table continues across the page break."""
    text = document.text
    before = text[max(0, page_start - 20) : page_start].rstrip()
    if text[page_start : page_start + 1].islower() and not before.endswith(tuple(_SENTENCE_ENDS)):
        return True
    table = bisect_left(document.tables, page_start, key=lambda item: item.start) - 1
    return table >= 0 and page_start < document.tables[table].end


def _join(
    document: ParsedDocument, cutter: Cutter, part: PartSpan, cuts: Sequence[int]
) -> Iterator[PartSpan]:
    """Join neighbouring sections that belong together."""
    most = _TOGETHER * cutter.max_tokens
    levels = {heading.start: heading.level for heading in document.headings}
    first: _Section | None = None
    for start, end in pairwise(cuts):
        # The text is counted only if it can be short enough.
        short = end - start <= MOST_CHARACTERS_A_TOKEN * most
        tokens = cutter.estimate(document.text[start:end]) if short else inf
        late = _Section(start, end, levels.get(start, 0), tokens, cutter.find_body(Span(start, end)) == end)
        if first is None:
            first = late
        elif _belong_together(document, first, late, most):
            level = late.level if first.is_empty else first.level
            first = _Section(first.start, end, level, first.tokens + tokens, first.is_empty and late.is_empty)
        else:
            yield PartSpan(first.start, first.end, part.format)
            first = late
    if first is not None:
        yield PartSpan(first.start, first.end, part.format)


def _belong_together(document: ParsedDocument, early: _Section, late: _Section, most: float) -> bool:
    """Whether two neighbours share a chunk: a heading and its text, a page of few words, and small sections."""
    if early.is_empty:
        return True
    turned = document.page_at(early.start) != document.page_at(late.start)
    if not late.level:
        return turned and early.end - early.start < _MIN_PAGE
    return not turned and late.level >= early.level and early.tokens + late.tokens <= most
