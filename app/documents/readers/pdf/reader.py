"""Read PDF files through PDFium in batches of pages, without running lines and in reading order."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pypdfium2

from app.documents.ocr.access import explain_missing_text
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.patience import Pace
from app.documents.readers.builder import TextBuilder, add_marked, remove_marks, take_marks
from app.documents.readers.pdf import pdfium
from app.documents.readers.pdf.blocks import Block, build_blocks, join_regions, order_items
from app.documents.readers.pdf.drawings import DrawingReader, turn_rules
from app.documents.readers.pdf.hidden import mark_hidden, set_apart
from app.documents.readers.pdf.lines import Piece, clean_plain, ends_sentence, find_pieces, find_rows, join_lines
from app.documents.readers.pdf.structure import (
    Candidate,
    OutlineItem,
    PageOutline,
    Style,
    Tags,
    find_levels,
    find_title,
    read_outline,
)
from app.documents.readers.pdf.tables import Table, take_ruled_tables
from app.documents.readers.pdf.words import Box, Word, find_turns, read_words
from app.documents.readers.pictures import PictureReader
from app.documents.readers.scans import choose_pictures, read_pictures, read_scan
from app.documents.readers.text import clean_text, collapse_spaces, join_hyphenation
from app.errors import UnreadableDocument

_SAME_SIZE = 0.6
_SENTENCE = 30
"""Least length of a text that continues; a shorter one is a label."""
_LEAST_HIDDEN = 3
"""Letters and digits of a block; fewer are dots and symbols of drawings, which hide nothing."""
_ASIDES = ("footnote", "aside")
_FIRST_WORD = re.compile(r"\S+")


class PdfText:
    """Receives the pages in order; a page is written when the next is known, because a sentence can continue there."""

    def __init__(self, builder: TextBuilder) -> None:
        self._builder = builder
        self._waiting: tuple[int, list[Block], Sequence[OutlineItem], bool] | None = None
        self._candidates: list[Candidate] = []
        self._gap = "\n\n"
        self._written = False
        self._pages = 0
        self._first_end = 0
        self.title: str | None = None  # that the first page shows

    def add_page(self, number: int, blocks: list[Block], items: Sequence[OutlineItem], recognised: bool) -> None:
        """Add a page, which may be blank; `items` are the titles that the outline names for it."""
        blocks = _join_columns(_move_asides(blocks))
        gap = "\n\n"
        if self._waiting is not None:
            before = self._waiting[1]
            if before and blocks and _goes_on(before[-1], blocks[0]):
                _move_word(before[-1], blocks[0])
                gap = " "
            elif before and blocks and _continue_table(before[-1], blocks[0]):
                gap = "\n"
            self._write(*self._waiting)
        self._gap = gap
        self._pages = number
        self._waiting = (number, blocks, items, recognised)

    def close(self, lengths: Counter[Style]) -> bool:
        """Write the last page and the headings; whether there is any text."""
        if self._waiting is not None:
            self._write(*self._waiting)
            self._waiting = None
        self.title = find_title(self._candidates, lengths, self._first_end)
        for candidate, level in find_levels(self._candidates, lengths, self._pages):
            self._builder.mark_heading(candidate.start, candidate.title, level)
        return self._written

    def _write(self, number: int, blocks: Sequence[Block], items: Sequence[OutlineItem], recognised: bool) -> None:
        page = ""
        before: Block | None = None
        for block in blocks:
            text, spans = take_marks(clean_text(block.text).strip("\n"))
            few = sum(map(str.isalnum, "".join(text[start:end] for start, end, _ in spans))) < _LEAST_HIDDEN
            gap = self._gap if before is None else _find_gap(before, block)
            start = self._builder.add(text, gap) if few else add_marked(self._builder, block.text, gap)
            if start is None:
                continue
            page += text if before is None else gap + text
            before = block
            end = self._builder.length
            if block.kind == "heading":
                title = collapse_spaces(text)
                self._candidates.append(
                    Candidate(start, title, block.style, block.numbers, block.level, block.tag, block.likely)
                )
            elif block.kind == "table" and block.header:
                header = take_marks(clean_text(block.text)[: block.header])[0]
                self._builder.mark_table(start, start + len(header), end)
            elif block.kind == "table":  # the rest of the one at the end of the page before
                self._builder.extend_table(end)
            if block.recognised:
                self._builder.mark_recognised(start, end)
        span = self._builder.mark_page(number)
        self._first_end = self._first_end or span.end
        self._written = self._written or span.start < span.end
        if recognised:
            self._builder.mark_recognised(span.start, span.end)
        level = 0
        for item in items:
            if item.found:
                continue
            match = re.search(r"\s+".join(map(re.escape, item.title.split())), page)
            # At most one of each level begins with the page; of an outline without places, all others are elsewhere.
            if match is None and item.level <= level:
                continue
            level = item.level if match is None else level
            start = span.start + (match.start() if match else 0)
            self._candidates.append(Candidate(start, item.title, (0, False), 0, item.level))
        self._candidates.sort(key=lambda candidate: candidate.start)


def _find_gap(before: Block, block: Block) -> str:
    if block.kind == "heading":
        named = block.level is not None or block.tag is not None
        follows = before.kind == "heading" and before.level is before.tag is None
        return "\n" if follows and not named else "\n\n\n"
    return "\n" if before.kind == block.kind == "item" else "\n\n"


def _move_asides(blocks: list[Block]) -> list[Block]:
    """Footnotes, turned text and text outside of the page follow the text of the page, but precede a sentence that
    continues on the next page."""
    notes = [block for block in blocks if block.kind in _ASIDES]
    if not notes:
        return blocks
    rest = [block for block in blocks if block.kind not in _ASIDES]
    if rest and rest[-1].kind == "paragraph" and not ends_sentence(rest[-1].text):
        return [*rest[:-1], *notes, rest[-1]]
    return [*rest, *notes]


def _goes_on(before: Block, block: Block) -> bool:
    """Whether a sentence that a column or page cuts continues in the next one."""
    if before.kind not in ("paragraph", "item") or block.kind != "paragraph" or ends_sentence(before.text):
        return False
    if len(before.text) < _SENTENCE or abs(before.style[0] - block.style[0]) > _SAME_SIZE:
        return False
    return before.text.endswith("-") or remove_marks(block.text)[:1].islower()


def _continue_table(before: Block, block: Block) -> bool:
    """Whether a table continues on the next page; there it has no header of its own."""
    if before.table is None or block.table is None:
        return False
    rows = block.table.continue_from(before.table)
    if rows is None:
        return False
    block.text, block.header = rows, 0
    return True


def _join_columns(blocks: Sequence[Block]) -> list[Block]:
    joined: list[Block] = []
    for block in blocks:
        # In one column, the next block is below, and a gap ends a sentence unless it divides a word.
        above = joined and (block.y >= joined[-1].y or joined[-1].text.endswith("-"))
        if above and _goes_on(joined[-1], block):
            joined[-1].text = join_lines([joined[-1].text, block.text])
        else:
            joined.append(block)
    return joined


def _move_word(before: Block, block: Block) -> None:
    """Move the rest of a divided word to the page on which it begins."""
    match = _FIRST_WORD.match(block.text)
    if before.text.endswith("-") and match is not None:
        before.text = join_lines([before.text, match.group()])
        block.text = block.text[match.end() :].lstrip()


_ZONE = 0.15
"""The part of the height of a page, at its top and at its bottom, in which running lines are."""
_MOST_ROWS = 3
_LEAST_PAGES = 3
_FEW_PAGES = 4
_LONGEST = 150
_LARGE = 1.15
"""How much larger than most of the text a heading is at least."""
_FAR = 2
"""The gap between a page number at the left and a running head, in sizes of the font; that of a heading is smaller."""
_PAGE = re.compile(
    "pages?|pp?|pg|of|seite|s|von|p[áa]gina|p[áa]g|de|di|sur|blz|blad|van|sida|side|av|af|sivu|strona|str|z|oldal|sayfa"
    "|trang|halaman|стр|страница|из|с|σελίδα|σελ|第|页|頁|共|ページ|쪽|페이지|صفحة"
)
"""Words of a line of a page number: Page 3 of 10."""
_NUMBER = re.compile(r"\d+|\b(?=[clxvi])c{0,3}(?:x[cl]|l?x{0,3})(?:i[xv]|v?i{0,3})\b")
_LETTERS = re.compile(r"[^\W\d_]+")
_SHORT = re.compile(r"\d{1,4}")
_AMOUNT = re.compile(r"\d[.,:]\d|\d{5}")
_PARTED = re.compile(
    r"^\W*(\d{1,4})\s+[|·•–—]|[|·•–—]\s+(\d{1,4})\W*$|\b(?:page|p\.|seite|página|pagina)\s?(\d{1,4})\b", re.I
)
"""A page number that a sign or a word sets apart from a running head: Harbour | 3."""


@dataclass(frozen=True, slots=True)
class _Row:
    """An outer line of a page: what other pages share with it if it is a running line, the same text or a page number,
    and whether it looks like a heading."""

    pieces: tuple[Piece, ...]
    keys: tuple[tuple[object, ...], ...]
    numbers: tuple[tuple[object, ...], ...]
    place: tuple[str, int]
    heads: bool
    alone: bool


class Furniture:
    """Counts the outer lines of the pages, a batch of pages after the other."""

    def __init__(self, total_pages: int) -> None:
        self._few = total_pages <= _FEW_PAGES
        self._counts: Counter[tuple[object, ...]] = Counter()
        self._places: Counter[tuple[str, int]] = Counter()
        self._tables: Counter[tuple[object, ...]] = Counter()
        self._pages = 0

    def remove(self, pages: Sequence["_Page"]) -> None:
        """Remove the running lines, and then the tables of running lines between rules."""
        sizes: Counter[float] = Counter()
        for piece in chain.from_iterable(page.pieces for page in pages):
            sizes[piece.size] += sum(len(word.text) for word in piece.words)
        large = _LARGE * max(sizes, key=lambda size: sizes[size], default=10.0)
        rows = [list(_list_rows(page, large)) for page in pages]
        for sides in rows:
            lines = [row for side in sides for row in side if not row.alone]
            self._counts.update({key for row in lines for key in (*row.keys, *row.numbers)})
        self._pages += len(pages)
        found = [[self._take(side) for side in sides] for sides in rows]
        for sides in found:
            self._places.update({row.place for side in sides for row in side})
        for page, sides, removed in zip(pages, rows, found, strict=True):
            gone = {id(piece) for side in removed for row in side for piece in row.pieces}
            for side, rows_removed in zip(sides, removed, strict=True):
                rest = side[len(rows_removed) :]
                # The name of a chapter of one page, at the place where all pages have one.
                often = rest and 2 * self._places[rest[0].place] > self._pages > _FEW_PAGES
                if often and not rows_removed and not rest[0].heads:
                    gone.update(id(piece) for piece in rest[0].pieces)
            page.pieces = [piece for piece in page.pieces if id(piece) not in gone]
            self._tables.update(key for table in page.tables for key in _name_table(table, page))
        for page in pages:
            page.tables = [
                table
                for table in page.tables
                if all(self._tables[key] < _LEAST_PAGES for key in _name_table(table, page))
            ]

    def _take(self, side: Sequence[_Row]) -> list[_Row]:
        removed = []
        for row in side:
            running = any(self._counts[key] >= _LEAST_PAGES for key in (*row.keys, *row.numbers))
            if not running and not (self._few and any(self._counts[key] > 1 for key in row.numbers)):
                break
            removed.append(row)
        return removed


def _list_rows(page: "_Page", large: float) -> Iterator[list[_Row]]:
    top = find_rows(piece for piece in page.pieces if piece.y > page.low + (1 - _ZONE) * page.height)
    bottom = find_rows(piece for piece in page.pieces if piece.y < page.low + _ZONE * page.height)
    middle = len(page.pieces) - sum(map(len, top)) - sum(map(len, bottom))
    rows_of_page = len(top) + len(bottom) + middle
    right = max((piece.x1 for piece in page.pieces), default=0.0)
    for name, rows in (("top", top[:_MOST_ROWS]), ("bottom", bottom[::-1][:_MOST_ROWS])):
        # A page of nothing else does not prove that a line repeats without being text.
        yield [
            _describe((name, round(row[0].y)), page.index, row, place + 1 >= rows_of_page, large, right)
            for place, row in enumerate(rows)
        ]


def _name_table(table: Table, page: "_Page") -> list[tuple[object, ...]]:
    """The place of a small table at the top or bottom of a page, with its text and with the page number in it."""
    middle = page.low + _ZONE * page.height < table.y < page.low + (1 - _ZONE) * page.height
    if middle or len(table.rows) > _MOST_ROWS:
        return []
    place = (round(table.x0), round(table.y), round(table.x1))
    text = " ".join(chain.from_iterable(table.rows))
    return [(place, text), *((place, number - page.index) for number in _find_parted(text))]


def _describe(
    place: tuple[str, int], index: int, row: Sequence[Piece], alone: bool, large: float, right: float
) -> _Row:
    text = " ".join(piece.text for piece in row)
    heads = any(piece.size > large or piece.bold or any(word.tag for word in piece.words) for piece in row)
    keys, numbers = [(place, text)], []
    if _is_bare(text.lower()):
        keys.append((place, "#"))
        numbers = [int(number) for number in re.findall(r"\d+", text)]
    elif not heads and len(text) <= _LONGEST:
        numbers = [*_find_parted(text), *_find_apart(row, right)]
    tracks = tuple((place, number - index) for number in numbers)
    return _Row(tuple(row), tuple(keys) if len(text) <= _LONGEST else (), tracks, place, heads, alone)


def _is_bare(text: str) -> bool:
    """Whether a line is a page number: - 3 -, iv, Page 3 of 10."""
    if len(text) > _LONGEST or _AMOUNT.search(text):
        return False
    rest, numbers = _NUMBER.subn(" ", text)
    return 1 <= numbers <= 2 and all(map(_PAGE.fullmatch, _LETTERS.findall(rest)))


def _find_parted(text: str) -> list[int]:
    return [int(next(filter(None, match.groups()))) for match in _PARTED.finditer(text)]


def _find_apart(row: Sequence[Piece], right: float) -> Iterator[int]:
    """The numbers at the margins, far from the rest of the line."""
    first, last = row[0], row[-1]
    if len(row) > 1 and _SHORT.fullmatch(last.text) and last.x1 > right - last.size:
        yield int(last.text)
    if len(row) > 1 and _SHORT.fullmatch(first.text) and row[1].x0 - first.x1 > _FAR * first.size:
        yield int(first.text)


_PROGRAM_TITLE = re.compile(
    r"^(?:\(anonymous\)|untitled|unknown|microsoft \w+ - .*|.*\.(?:docx?|tex|dvi|indd|qxd|pdf|pptx?))$", re.I
)
_BATCH = 50
"""Pages whose lines are in memory together."""
_SAMPLE = 500
"""Words of a page that show whether it is a scan."""
_MOST_WORDS = 20_000
"""Words of a page that is put into order; a page with more is a drawing."""


@dataclass(slots=True)
class _Page:
    """Lines of a page in the coordinates of its upright text; `asides` has text in other directions and outside,
    `plain` all text where the layout was not read, and `pictures` the texts of pictures, which are in `boxes`."""

    index: int
    low: float = 0.0
    height: float = 0.0
    pieces: list[Piece] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    asides: list[str] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    plain: str | None = None
    recognised: bool = False
    complete: bool = True


def parse(data: bytes, limits: ParseLimits, clock: Callable[[], float] = time.process_time) -> ParsedDocument:
    """Read a PDF as paragraphs, lists, tables and headings in reading order; pages for which no time is left are
    listed."""
    document = pdfium.open_document(data)
    total = len(document)
    if total > limits.max_pages:
        raise UnreadableDocument(f"the PDF has {total:,} pages; at most {limits.max_pages:,} are read")
    builder = TextBuilder(limits)
    text = PdfText(builder)
    outline = read_outline(document, total)
    furniture = Furniture(total)
    sizes: Counter[float] = Counter()
    lengths: Counter[Style] = Counter()
    pace = Pace(total, limits.seconds, clock)
    tags = Tags(limits.structure_seconds)
    pictures = PictureReader(limits)
    without: list[int] = []
    opened = 0
    characters = 0
    found = False
    for start in range(0, total, _BATCH):
        pages: list[_Page] = []
        for index in range(start, min(start + _BATCH, total)):
            if not pace.allows_reading():
                pages.append(_Page(index, complete=False))
                continue
            page = _read_page(document, index, limits, tags, pace, pictures)
            opened += page is not None
            page = page or _Page(index)
            found = found or bool(page.pieces or page.tables or page.plain)
            if not found and pace.is_hopeless(index):
                raise UnreadableDocument(f"{_explain_slowness(limits)}: its {total:,} pages draw too much")
            characters += sum(len(word.text) for piece in page.pieces for word in piece.words)
            limits.require_characters(characters)
            pages.append(page)
        furniture.remove(pages)
        for piece in chain.from_iterable(page.pieces for page in pages):
            length = sum(len(word.text) for word in piece.words)
            sizes[piece.size] += length
            lengths[piece.size, piece.bold] += length
        body = max(sizes, key=lambda size: sizes[size], default=10.0)
        for page in pages:
            items = outline.get(page.index, [])
            blocks = _build_page(page, body, PageOutline(items))
            text.add_page(page.index + 1, blocks, items, page.recognised)
            if not page.complete:
                without.append(page.index + 1)
    if not found and not pace.allows_reading():
        raise UnreadableDocument(_explain_slowness(limits))
    if not opened:
        raise UnreadableDocument("the PDF is damaged: none of its pages can be opened")
    if not text.close(lengths):
        reason = explain_missing_text() if without else "and its pages show nothing that could be text"
        raise UnreadableDocument(f"the PDF has no text layer: {reason}")
    stated = collapse_spaces(document.get_metadata_value("Title"))
    title = text.title if not stated or _PROGRAM_TITLE.match(stated) else stated
    return builder.finish("pdf", title=title, total_pages=total, pages_without_text=without)


def _explain_slowness(limits: ParseLimits) -> str:
    return f"the file takes more than {limits.seconds:g} s to read"


def _build_page(page: _Page, body: float, outline: PageOutline) -> list[Block]:
    if page.plain:
        return [Block("paragraph", remove_marks(page.plain), (body, False), 0)]
    blocks: list[Block] = []
    items: list[Piece | Table] = [*page.pieces, *page.tables]
    if items:
        for region in join_regions(order_items(items)):
            blocks.extend(build_blocks(region, body, outline, page.low + page.height / 2))
    blocks.extend(Block("aside", text, (body, False), 0) for text in page.asides)
    blocks.extend(Block("aside", text, (body, False), 0, recognised=True) for text in page.pictures)
    return blocks


def _read_page(
    document: Any, index: int, limits: ParseLimits, tags: Tags, pace: Pace, pictures: PictureReader
) -> _Page | None:
    with_layout = pace.allows_layout(index)
    try:
        with pace.opening():
            page = document[index]
            text_page = page.get_textpage()
    except pypdfium2.PdfiumError:
        return None
    try:
        words = read_words(pdfium.find_address(text_page.raw)) if with_layout else []
        if with_layout and len(words) <= _MOST_WORDS:
            text = " ".join(word.text for word in words[:_SAMPLE])
        else:
            text = clean_plain(text_page.get_text_bounded())
        scanned, complete = read_scan(page, text, limits)
        if scanned is not None:
            return _Page(index, plain=join_hyphenation(clean_text(scanned)), recognised=True, complete=complete)
        if not with_layout or len(words) > _MOST_WORDS:
            return _Page(index, plain=text, complete=complete)
        if not words:
            return _Page(index, complete=complete)
        found = _lay_out(index, words, page, tags, pdfium.find_address(document.raw))
        texts, whole = read_pictures(pictures, page, found.boxes, limits)
        found.pictures = [join_hyphenation(clean_text(text)) for text in texts]
        found.complete = complete and whole
        return found
    finally:
        text_page.close()
        page.close()


def _lay_out(index: int, words: Sequence[Word], page: Any, tags: Tags, document: int) -> _Page:
    handle, box = pdfium.find_address(page.raw), Box(*page.get_bbox())
    drawings = DrawingReader().read(handle)
    mark_hidden(words, drawings, box, handle, document)
    tags.mark(handle, words)
    # PDFium finds it only if the page itself states it.
    stated = page.get_mediabox(fallback_ok=False)
    words, outside = set_apart(words, Box(*stated) if stated else None)
    turns = find_turns(words)
    turn_rules(drawings, turns)
    upright = [word for word in words if word.style.turns == turns]
    others = [[word for word in words if word.style.turns == other] for other in range(4) if other != turns]
    turned = [find_pieces(other) for other in others if other]
    asides = ["\n".join(piece.text for piece in lines) for lines in (*turned, outside) if lines]
    low, high = box.y0, box.y1
    if turns and upright:
        low, high = min(word.y for word in upright), max(word.y for word in upright)
    tables, rest = take_ruled_tables(upright, drawings)
    boxes = choose_pictures(drawings.images, words)
    return _Page(index, low, high - low, find_pieces(rest), tables, asides, boxes)
