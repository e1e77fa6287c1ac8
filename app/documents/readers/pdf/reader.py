"""Read PDF files through PDFium in batches of pages, without running lines and in reading order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pypdfium2

from app.documents.ocr.access import explain_missing_text
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.patience import Pace
from app.documents.readers.builder import TextBuilder
from app.documents.readers.pdf import pdfium
from app.documents.readers.pdf.blocks import Block, build_blocks
from app.documents.readers.pdf.columns import join_regions, order_items
from app.documents.readers.pdf.drawings import read_drawings, turn_rules
from app.documents.readers.pdf.hidden import mark_hidden
from app.documents.readers.pdf.lines import Piece, clean_plain, find_pieces, find_rows, join_hyphenation
from app.documents.readers.pdf.structure import PageOutline, Style, Tags, read_outline
from app.documents.readers.pdf.tables import Table, take_ruled_tables
from app.documents.readers.pdf.text import PdfText
from app.documents.readers.pdf.words import Box, Word, find_turns, read_words
from app.documents.readers.scans import read_scan
from app.documents.readers.text import clean_text, collapse_spaces
from app.errors import UnreadableDocument

_ZONE = 0.15
"""The part of the height of a page, at its top and at its bottom, in which running lines are."""
_MOST_ROWS = 3
_LEAST_PAGES = 3
_FEW_PAGES = 4
_LONGEST = 150
_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b")
_ENDS = re.compile(r"^\D?(\d{1,5})\b|\b(\d{1,5})\D?$")


@dataclass(frozen=True, slots=True)
class _Row:
    pieces: tuple[Piece, ...]
    keys: tuple[tuple[object, ...], ...]
    place: tuple[str, int]
    numbered: bool
    alone: bool


class Furniture:
    """Counts the outer lines of the pages, a batch of pages after the other."""

    def __init__(self, total_pages: int) -> None:
        self._few = total_pages <= _FEW_PAGES
        self._counts: Counter[tuple[object, ...]] = Counter()
        self._places: Counter[tuple[str, int]] = Counter()
        self._pages = 0

    def remove(self, pages: Sequence[tuple[int, float, float, list[Piece]]]) -> list[list[Piece]]:
        """The pieces of each page (index, lower end, height, pieces) without running lines."""
        rows = [list(_list_rows(*page)) for page in pages]
        for sides in rows:
            self._counts.update({key for side in sides for row in side if not row.alone for key in row.keys})
        self._pages += len(pages)
        found = [[self._take(side) for side in sides] for sides in rows]
        for sides in found:
            self._places.update({row.place for side in sides for row in side})
        kept = []
        for (_, _, _, pieces), sides, removed in zip(pages, rows, found, strict=True):
            gone = {id(piece) for side in removed for row in side for piece in row.pieces}
            for side, rows_removed in zip(sides, removed, strict=True):
                rest = side[len(rows_removed) :]
                # The name of a chapter of one page, at the place where all pages have one.
                tagged = any(word.tag for row in rest[:1] for piece in row.pieces for word in piece.words)
                if tagged:
                    continue
                if rest and not rows_removed and 2 * self._places[rest[0].place] > self._pages > _FEW_PAGES:
                    gone.update(id(piece) for piece in rest[0].pieces)
            kept.append([piece for piece in pieces if id(piece) not in gone] if gone else pieces)
        return kept

    def _take(self, side: Sequence[_Row]) -> list[_Row]:
        removed = []
        for row in side:
            least = 2 if self._few and row.numbered else _LEAST_PAGES
            if max((self._counts[key] for key in row.keys), default=0) < least:
                break
            removed.append(row)
        return removed


def _list_rows(index: int, low: float, height: float, pieces: list[Piece]) -> Iterator[list[_Row]]:
    top = find_rows(piece for piece in pieces if piece.y > low + (1 - _ZONE) * height)
    bottom = find_rows(piece for piece in pieces if piece.y < low + _ZONE * height)
    middle = len(pieces) - sum(map(len, top)) - sum(map(len, bottom))
    rows_of_page = len(top) + len(bottom) + middle
    for name, rows in (("top", top[:_MOST_ROWS]), ("bottom", bottom[::-1][:_MOST_ROWS])):
        # A page of nothing else does not prove that a line repeats without being text.
        yield [_describe(name, index, row, place + 1 >= rows_of_page) for place, row in enumerate(rows)]


def _describe(side: str, index: int, row: Sequence[Piece], alone: bool) -> _Row:
    text = " ".join(piece.text for piece in row)
    place = (side, round(row[0].y))
    if len(text) > _LONGEST:
        return _Row(tuple(row), (), place, False, alone)
    keys: list[tuple[object, ...]] = [(place, _NUMBER.sub("#", text.lower()))]
    numbered = _NUMBER.search(text.lower()) is not None
    for match in _ENDS.finditer(text):
        keys.append((place, int(match.group(1) or match.group(2)) - index))
    return _Row(tuple(row), tuple(keys), place, numbered, alone)


_PROGRAM_TITLE = re.compile(r"^(?:untitled|unknown|microsoft \w+ - .*|.*\.(?:docx?|tex|dvi|indd|qxd|pdf|pptx?))$", re.I)
_BATCH = 50
"""Pages whose lines are in memory together."""
_SAMPLE = 500
"""Words of a page that show whether it is a scan."""
_MOST_WORDS = 20_000
"""Words of a page that is put into order; a page with more is a drawing."""


@dataclass(slots=True)
class _Page:
    """Lines of a page in the coordinates of its upright text; `turned` has text in other directions,
    `plain` all text where the layout was not read, and `shows` is whether it draws something."""

    index: int
    low: float
    height: float
    pieces: list[Piece]
    tables: list[Table]
    turned: list[str]
    plain: str | None = None
    recognised: bool = False
    complete: bool = True


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read a PDF as paragraphs, lists, tables and headings in reading order.

    Raises UnreadableDocument when it is encrypted, damaged, too long or without text, and RecognitionNeeded.
    """
    document = pdfium.open_document(data)
    total = len(document)
    if total > limits.max_pages:
        raise UnreadableDocument(f"the PDF has {total:,} pages; at most {limits.max_pages:,} are read")
    text = PdfText(TextBuilder(limits))
    outline = read_outline(document, total)
    furniture = Furniture(total)
    sizes: Counter[float] = Counter()
    lengths: Counter[Style] = Counter()
    pace = Pace(total, limits.seconds)
    tags = Tags(limits.structure_seconds)
    without: list[int] = []
    opened = 0
    characters = 0
    for start in range(0, total, _BATCH):
        pages: list[_Page] = []
        for index in range(start, min(start + _BATCH, total)):
            page = _read_page(document, index, limits, tags, pace)
            opened += page is not None
            page = page or _Page(index, 0, 0, [], [], [])
            characters += sum(len(word.text) for piece in page.pieces for word in piece.words)
            if characters > limits.max_characters:
                raise UnreadableDocument(f"the file has more than {limits.max_characters:,} characters of text")
            pages.append(page)
        kept = furniture.remove([(page.index, page.low, page.height, page.pieces) for page in pages])
        for pieces in kept:
            for piece in pieces:
                length = sum(len(word.text) for word in piece.words)
                sizes[piece.size] += length
                lengths[piece.size, piece.bold] += length
        body = max(sizes, key=lambda size: sizes[size], default=10.0)
        for page, pieces in zip(pages, kept, strict=True):
            items = outline.get(page.index, [])
            blocks = _build_page(page, pieces, body, PageOutline(items))
            text.add_page(page.index + 1, blocks, items, page.recognised)
            if not page.complete:
                without.append(page.index + 1)
    if not opened:
        raise UnreadableDocument("the PDF is damaged: none of its pages can be opened")
    if not text.close(lengths):
        reason = explain_missing_text() if without else "and its pages show nothing that could be text"
        raise UnreadableDocument(f"the PDF has no text layer: {reason}")
    title = collapse_spaces(document.get_metadata_value("Title"))
    return text.finish(None if _PROGRAM_TITLE.match(title) else title, total, without)


def _build_page(page: _Page, pieces: Sequence[Piece], body: float, outline: PageOutline) -> list[Block]:
    if page.plain:
        return [Block("paragraph", page.plain, (body, False), 0)]
    blocks = _order_blocks([*pieces, *page.tables], body, outline, page.low + page.height / 2)
    blocks.extend(Block("turned", text, (body, False), 0) for text in page.turned)
    return blocks


def _order_blocks(items: Sequence[Piece | Table], body: float, outline: PageOutline, middle: float) -> list[Block]:
    blocks: list[Block] = []
    if items:
        for region in join_regions(order_items(items)):
            blocks.extend(build_blocks(region, body, outline, middle))
    return blocks


def _read_page(document: Any, index: int, limits: ParseLimits, tags: Tags, pace: Pace) -> _Page | None:
    with_layout = pace.allows_layout(index)
    try:
        with pace.opening(index):
            page = document[index]
            text_page = page.get_textpage()
    except pypdfium2.PdfiumError:
        return None
    try:
        address, handle = pdfium.find_address(text_page.raw), pdfium.find_address(page.raw)
        words = read_words(address) if with_layout else []
        if with_layout and len(words) <= _MOST_WORDS:
            text = " ".join(word.text for word in words[:_SAMPLE])
        else:
            text = clean_plain(text_page.get_text_bounded())
        read = read_scan(page, text, limits)
        if read.recognised or not with_layout or len(words) > _MOST_WORDS:
            plain = join_hyphenation(clean_text(read.text)) if read.recognised else text
            return _Page(index, 0, 0, [], [], [], plain, read.recognised, read.complete)
        if not words:
            return _Page(index, 0, 0, [], [], [], complete=read.complete)
        found = _lay_out(index, words, handle, Box(*page.get_bbox()), tags, pdfium.find_address(document.raw))
        found.complete = read.complete
        return found
    finally:
        text_page.close()
        page.close()


def _lay_out(index: int, words: Sequence[Word], page: int, box: Box, tags: Tags, document: int) -> _Page:
    drawings = read_drawings(page)
    mark_hidden(words, drawings, box, page, document)
    tags.mark(page, words)
    turns = find_turns(words)
    turn_rules(drawings, turns)
    upright = [word for word in words if word.style.turns == turns]
    turned = [_join_turned(words, other) for other in range(4) if other != turns]
    ys = [word.y for word in upright if word.hidden != "off_page"]
    low, high = (min(ys), max(ys)) if ys else (0.0, 0.0)
    if turns == 0:
        low, high = box.y0, box.y1
    tables, rest = take_ruled_tables(upright, drawings)
    return _Page(index, low, high - low, find_pieces(rest), tables, [text for text in turned if text])


def _join_turned(words: Sequence[Word], turns: int) -> str:
    pieces = find_pieces(word for word in words if word.style.turns == turns) if words else []
    return "\n".join(piece.text for piece in pieces)
