"""Cut documents into chunks that fit a model's input: at sections, tables and pages, then at pauses."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, takewhile
from math import inf
from typing import NamedTuple

from app.documents.cutting import MOST_CHARACTERS_A_TOKEN, Cutter, Span, TokenCounter
from app.documents.parsed import HeadingSpan, ParsedDocument, PartSpan, TableSpan

# A page with fewer characters shares a chunk with the next one: a title, the caption of a full-page picture.
_MIN_PAGE = 200
_SENTENCE_ENDS = ".!?:;…"
# Neighbouring sections below one heading stay together up to this fraction of a chunk.
_TOGETHER = 0.25


class _Section(NamedTuple):
    """Text between two cuts; `level` is the level of its topmost heading, 0 for text without a heading."""

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
    for part in _cover(document):
        inside = cuts[bisect_right(cuts, part.start) : bisect_left(cuts, part.end)]
        yield from _join(document, cutter, part, [part.start, *inside, part.end])


def _cover(document: ParsedDocument) -> Iterator[PartSpan]:
    """The separate files in the text, and the text of the document itself before, between and after them."""
    place = 0
    for part in (*document.parts, PartSpan(len(document.text), len(document.text), document.format)):
        if place < part.start:
            yield PartSpan(place, part.start, document.format)
        if part.start < part.end:
            yield part
        place = part.end


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


def _join(document: ParsedDocument, cutter: Cutter, part: PartSpan, cuts: Sequence[int]) -> Iterator[PartSpan]:
    """Join neighbouring sections that belong together; a small one alone would be a chunk that is found by chance."""
    most = _TOGETHER * cutter.max_tokens
    levels = {heading.start: heading.level for heading in document.headings}
    joined: list[_Section] = []
    for start, end in pairwise(cuts):
        # The text is counted only if it can be short enough.
        short = end - start <= MOST_CHARACTERS_A_TOKEN * most
        tokens = cutter.estimate(document.text[start:end]) if short else inf
        late = _Section(start, end, levels.get(start, 0), tokens, cutter.find_body(Span(start, end)) == end)
        if joined and _belong_together(document, joined[-1], late, most):
            early = joined.pop()
            level = late.level if early.is_empty else early.level
            late = _Section(early.start, end, level, early.tokens + tokens, early.is_empty and late.is_empty)
        joined.append(late)
    yield from (PartSpan(section.start, section.end, part.format) for section in joined)


def _belong_together(document: ParsedDocument, early: _Section, late: _Section, most: float) -> bool:
    """Whether two neighbours share a chunk: a heading and its text, a page of few words, and small sections."""
    if early.is_empty:
        return True
    turned = document.page_at(early.start) != document.page_at(late.start)
    if not late.level:
        return turned and early.end - early.start < _MIN_PAGE
    return not turned and late.level >= early.level and early.tokens + late.tokens <= most


# A header that needs more than this fraction of a chunk is not repeated.
_MAX_HEADER = 0.5


def cut_section(cutter: Cutter, section: PartSpan, tables: Sequence[TableSpan]) -> Iterator[Span]:
    """The pieces of a section in order; its tables are cut between rows."""
    first = bisect_left(tables, section.start, key=lambda table: table.start)
    last = bisect_left(tables, section.end, first, key=lambda table: table.start)
    if first == last or cutter.estimate(cutter.text[section.start : section.end]) <= cutter.max_tokens:
        yield from cutter.cut(section)
        return
    pieces: list[Span] = []
    for piece in _cut_around(cutter, section, tables[first:last]):
        if pieces and not piece.lead and any(map(cutter.is_small, (pieces[-1], piece))):
            joined = Span(pieces[-1].start, piece.end, pieces[-1].lead)
            if _fits(cutter, joined):
                pieces[-1] = joined
                continue
        pieces.append(piece)
    yield from pieces


def _cut_around(cutter: Cutter, section: PartSpan, tables: Sequence[TableSpan]) -> Iterator[Span]:
    position = section.start
    for table in tables:
        spans = list(cutter.cut(PartSpan(position, table.start, section.format)))
        # A short text above a table introduces it.
        start = spans.pop().start if spans and cutter.is_small(spans[-1]) else table.start
        yield from spans
        header = _read_header(cutter, table)
        lead = header if cutter.estimate(header) <= _MAX_HEADER * cutter.max_tokens else ""
        for piece in _cut_table(cutter, table, start, lead):
            yield from _fit(cutter, piece, table, lead)
        position = table.end
    yield from cutter.cut(PartSpan(position, section.end, section.format))


def _read_header(cutter: Cutter, table: TableSpan) -> str:
    return cutter.text[table.start : table.header_end].rstrip("\n") + "\n"


def _cut_table(cutter: Cutter, table: TableSpan, start: int, lead: str) -> Iterator[Span]:
    """As many rows as fit in each piece; the text that introduces the table begins at `start`."""
    text = cutter.text
    frame = cutter.estimate("")
    begun, position, repeated = start, table.header_end, ""
    used = cutter.estimate(text[start:position])
    while position < table.end:
        end = text.find("\n", position, table.end) + 1 or table.end
        cost = cutter.estimate(text[position:end]) - frame
        if used + cost > cutter.max_tokens:
            if position > table.header_end:
                yield Span(begun, position, repeated)
                begun, used, repeated = position, cutter.estimate(lead), lead
            elif start < table.start:
                yield Span(start, table.start)
                begun, used = table.start, cutter.estimate(_read_header(cutter, table))
        used += cost
        position = end
    yield Span(begun, table.end, repeated)


def _fit(cutter: Cutter, piece: Span, table: TableSpan, lead: str) -> Iterator[Span]:
    """The piece, or parts of it if it has more tokens than were estimated, as a very long row has."""
    text = cutter.text[piece.start : piece.end]
    start = piece.start + len(text) - len(text.lstrip())
    end = piece.start + len(text.rstrip())
    if start >= end:
        return
    if _fits(cutter, Span(start, end, piece.lead)):
        yield Span(start, end, piece.lead)
        return
    body = max(start, table.header_end) if lead else start
    middle = cutter.text.rfind("\n", body, (body + end) // 2) + 1 or cutter.text.find("\n", body, end) + 1
    if middle > body:
        yield from _fit(cutter, Span(start, middle, piece.lead), table, lead)
        yield from _fit(cutter, Span(middle, end, lead), table, lead)
        return
    # A part of a long row has the header, too; in the first piece of the table it stands before the first part.
    for span in cutter.narrow(lead).cut(PartSpan(body, end, "csv")):
        whole = Span(start, span.end)
        if start < body and _fits(cutter, whole):
            yield whole
        else:
            yield from cutter.fit(Span(start, body)) if start < body else ()
            yield from (Span(part.start, part.end, lead) for part in cutter.fit(span, lead))
        start = body


def _fits(cutter: Cutter, piece: Span) -> bool:
    return cutter.fits(piece.lead + cutter.text[piece.start : piece.end])


MAX_HEADINGS = 10
"""Most headings of a chunk: no document needs more levels, and a hostile one has many."""


# A page or section with fewer characters is part of the next one, or of the one before the end: a title, a number.
_MIN_PART = 24


class Part(NamedTuple):
    """A page or section of several in a chunk, at `text[start:end]` of the chunk."""

    start: int
    end: int
    page: int | None
    page_end: int | None
    headings: tuple[str, ...]


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
        parts: the small pages and sections that share the chunk; empty for other chunks.
    """

    index: int
    text: str
    char_start: int
    char_end: int
    page: int | None
    page_end: int | None
    headings: tuple[str, ...]
    lead: str = ""
    parts: tuple[Part, ...] = ()


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
    cuts = _list_cuts(document)
    sections = list_sections(document, cutter)
    spans = chain.from_iterable(cut_section(cutter, section, document.tables) for section in sections)
    return [
        Chunk(
            index=index,
            text=span.lead + document.text[span.start : span.end],
            char_start=span.start,
            char_end=span.end,
            page=document.page_at(span.start),
            page_end=document.page_at(span.end - 1),
            headings=outline.find_shared(cutter.find_body(span), span.end)[-MAX_HEADINGS:],
            lead=span.lead,
            parts=tuple(_list_parts(document, cutter, outline, cuts, span)),
        )
        for index, span in enumerate(spans)
    ]


def _list_parts(
    document: ParsedDocument, cutter: Cutter, outline: "_Outline", cuts: Sequence[int], span: Span
) -> Iterator[Part]:
    """The pages and sections that were joined in a span; nothing if it has only one."""
    inside = cuts[bisect_right(cuts, span.start) : bisect_left(cuts, span.end)]
    starts, bodies, begun = [], [], span.start
    for start, end in pairwise([span.start, *inside, span.end]) if inside else ():
        body = cutter.find_body(Span(start, end))
        if len(document.text[body:end].strip()) >= _MIN_PART:
            starts.append(begun)
            bodies.append(body)
            begun = end
    shift = len(span.lead) - span.start
    for start, end, body in zip(starts, [*starts[1:], span.end], bodies, strict=True) if len(starts) > 1 else ():
        headings = outline.find_shared(body, body + 1)[-MAX_HEADINGS:]
        last = start + len(document.text[start:end].rstrip())
        yield Part(start + shift, last + shift, document.page_at(body), document.page_at(last - 1), headings)


def split_text(text: str, count_tokens: TokenCounter, max_tokens: int) -> list[tuple[int, int]]:
    """Offsets (start, end) of a text's passages of at most `max_tokens`; one passage if the whole text fits."""
    if text.strip() and count_tokens(text) <= max_tokens:
        start = len(text) - len(text.lstrip())
        return [(start, len(text.rstrip()))]
    cutter = Cutter(text, (), count_tokens, max_tokens, 0)
    return [(span.start, span.end) for span in cutter.cut(PartSpan(0, len(text), "text"))]


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
        paths = self._paths[above : bisect_left(self._starts, end)]
        shared = takewhile(lambda titles: len(set(titles)) == 1, zip(*paths, strict=False))
        return tuple(titles[0] for titles in shared) or self._paths[above]
