"""Cuts sections with tables: between rows, with the header repeated."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.documents.chunking.cutting import Cutter, Span
from app.documents.parsed import PartSpan, TableSpan

# A header that needs more than this fraction of a chunk is not repeated.
_MAX_HEADER = 0.5


class Piece(NamedTuple):
    """The text of a chunk: `lead`, the header of the table that it continues, and the span."""

    start: int
    end: int
    lead: str = ""


def cut_section(cutter: Cutter, section: PartSpan, tables: Sequence[TableSpan]) -> Iterator[Piece]:
    """The pieces of a section in order; its tables are cut between rows."""
    first = bisect_left(tables, section.start, key=lambda table: table.start)
    last = bisect_left(tables, section.end, first, key=lambda table: table.start)
    if first == last or cutter.estimate(cutter.text[section.start : section.end]) <= cutter.max_tokens:
        for span in cutter.cut(section):
            yield Piece(span.start, span.end)
        return
    waiting: Piece | None = None
    for piece in _cut_around(cutter, section, tables[first:last]):
        if waiting is not None:
            joined = Piece(waiting.start, piece.end, waiting.lead)
            if not piece.lead and _is_small(cutter, waiting, piece) and _fits(cutter, joined):
                piece = joined
            else:
                yield waiting
        waiting = piece
    if waiting is not None:
        yield waiting


def _cut_around(cutter: Cutter, section: PartSpan, tables: Sequence[TableSpan]) -> Iterator[Piece]:
    position = section.start
    for table in tables:
        spans = list(cutter.cut(PartSpan(position, table.start, section.format)))
        # A short text above a table introduces it.
        start = spans.pop().start if spans and cutter.is_small(spans[-1]) else table.start
        for span in spans:
            yield Piece(span.start, span.end)
        lead = _find_lead(cutter, table)
        for piece in _cut_table(cutter, table, start, lead):
            yield from _fit(cutter, piece, table, lead)
        position = table.end
    for span in cutter.cut(PartSpan(position, section.end, section.format)):
        yield Piece(span.start, span.end)


def _find_lead(cutter: Cutter, table: TableSpan) -> str:
    """The header that is repeated, "" if it is too long."""
    header = _read_header(cutter, table)
    return header if cutter.estimate(header) <= _MAX_HEADER * cutter.max_tokens else ""


def _read_header(cutter: Cutter, table: TableSpan) -> str:
    return cutter.text[table.start : table.header_end].rstrip("\n") + "\n"


def _cut_table(cutter: Cutter, table: TableSpan, start: int, lead: str) -> Iterator[Piece]:
    """As many rows as fit in each piece; `start` is where the text begins that introduces the table."""
    text = cutter.text
    frame = cutter.estimate("")
    begun, position, repeated = start, table.header_end, ""
    used = cutter.estimate(text[start:position])
    while position < table.end:
        end = text.find("\n", position, table.end) + 1 or table.end
        cost = cutter.estimate(text[position:end]) - frame
        if used + cost > cutter.max_tokens:
            if position > table.header_end:
                yield Piece(begun, position, repeated)
                begun, used, repeated = position, cutter.estimate(lead), lead
            elif start < table.start:
                yield Piece(start, table.start)
                begun, used = table.start, cutter.estimate(_read_header(cutter, table))
        used += cost
        position = end
    yield Piece(begun, table.end, repeated)


def _fit(cutter: Cutter, piece: Piece, table: TableSpan, lead: str) -> Iterator[Piece]:
    """The piece, or parts of it if it has more tokens than were estimated, as a very long row has."""
    text = cutter.text[piece.start : piece.end]
    start = piece.start + len(text) - len(text.lstrip())
    end = piece.start + len(text.rstrip())
    if start >= end:
        return
    if _fits(cutter, Piece(start, end, piece.lead)):
        yield Piece(start, end, piece.lead)
        return
    body = max(start, table.header_end) if lead else start
    middle = cutter.text.rfind("\n", body, (body + end) // 2) + 1 or cutter.text.find("\n", body, end) + 1
    if middle > body:
        yield from _fit(cutter, Piece(start, middle, piece.lead), table, lead)
        yield from _fit(cutter, Piece(middle, end, lead), table, lead)
        return
    # A part of a long row has the header, too; in the first piece of the table it stands before the first part.
    for span in cutter.narrow(lead).cut(PartSpan(body, end, "csv")):
        whole = Piece(start, span.end)
        if start < body and _fits(cutter, whole):
            yield whole
        else:
            yield from (Piece(*part) for part in cutter.fit(Span(start, body)) if start < body)
            yield from (Piece(*part, lead) for part in cutter.fit(span, lead))
        start = body


def _fits(cutter: Cutter, piece: Piece) -> bool:
    return cutter.fits(piece.lead + cutter.text[piece.start : piece.end])


def _is_small(cutter: Cutter, early: Piece, late: Piece) -> bool:
    return any(cutter.is_small(Span(piece.start, piece.end)) for piece in (early, late))
