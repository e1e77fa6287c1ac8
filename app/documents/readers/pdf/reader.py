"""Read PDF files through PDFium in batches of pages, without running lines and in reading order."""

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, takewhile
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
_NAMED = re.compile(r"\b(?:page|p\.|seite|p[áa]gina|blatt|folie|slide|bladzijde|лист)\s?(\d{1,4})\b", re.I)
_SIGNED = re.compile(r"^\W*(\d{1,4})\s+[|·•–—]|[|·•–—]\s+(\d{1,4})\W*$")
"""A page number that a sign sets apart from a running head: Harbour | 3."""
_OF = re.compile(r"\b(\d{1,4})\s?/\s?(\d{1,4})\W*$")
_AFTER = 20
"""Numbers of pages may be this much higher than the number of pages of the file, where nothing else tells them."""

_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """An outer line of a page, at a place and in a size.

    It is a running line if other pages have one of its keys, or a number in it runs with the pages, and the rest of the
    line is the same: `numbers` has the key of both for each.
    """

    pieces: tuple[Piece, ...]
    keys: tuple[_Key, ...]
    numbers: tuple[tuple[_Key, _Key], ...]
    place: tuple[str, int, float]
    heads: bool
    alone: bool


class Furniture:
    """Counts the outer lines of the pages, a batch of pages after the other."""

    def __init__(self, total_pages: int) -> None:
        self._total = total_pages
        self._counts: Counter[_Key] = Counter()
        self._places: Counter[_Key] = Counter()
        self._tables: Counter[_Key] = Counter()
        self._pages = 0

    def remove(self, pages: Sequence["_Page"]) -> None:
        """Remove the running lines, and then the tables of running lines between rules."""
        sizes: Counter[float] = Counter()
        for piece in chain.from_iterable(page.pieces for page in pages):
            sizes[piece.size] += sum(len(word.text) for word in piece.words)
        body = max(sizes, key=lambda size: sizes[size], default=10.0)
        rows = [list(self._list_rows(page, body)) for page in pages]
        for row in chain.from_iterable(chain.from_iterable(rows)):
            if not row.alone:
                self._counts.update({*row.keys, *chain.from_iterable(row.numbers)})
        self._pages += len(pages)
        found = [[self._take(side) for side in sides] for sides in rows]
        for sides in found:
            self._places.update({row.place for side in sides for row in side})
        for page, sides, removed in zip(pages, rows, found, strict=True):
            gone = {id(piece) for side in removed for row in side for piece in row.pieces}
            for side, rows_removed in zip(sides, removed, strict=True):
                # The name of a chapter of one page, at the place where all pages have one.
                rest = side[0] if side and not rows_removed and not side[0].heads else None
                often = rest and 2 * self._places[rest.place] > self._pages > _FEW_PAGES
                if rest and often and abs(rest.place[2] - body) > _SAME_SIZE:
                    gone.update(id(piece) for piece in rest.pieces)
            page.pieces = [piece for piece in page.pieces if id(piece) not in gone]
            self._tables.update(key for table in page.tables for key in _name_table(table, page))
        for page in pages:
            page.tables = [
                table
                for table in page.tables
                if all(self._tables[key] < _LEAST_PAGES for key in _name_table(table, page))
            ]

    def _take(self, side: Sequence[_Row]) -> list[_Row]:
        return list(takewhile(self._runs, side))

    def _runs(self, row: _Row) -> bool:
        same = _LEAST_PAGES if row.heads else 2
        return any(self._counts[key] >= _LEAST_PAGES for key in row.keys) or any(
            self._counts[number] >= (2 if self._total <= _FEW_PAGES else _LEAST_PAGES) and self._counts[rest] >= same
            for number, rest in row.numbers
        )

    def _list_rows(self, page: "_Page", body: float) -> Iterator[list[_Row]]:
        top = find_rows(piece for piece in page.pieces if piece.y > page.low + (1 - _ZONE) * page.height)
        bottom = find_rows(piece for piece in page.pieces if piece.y < page.low + _ZONE * page.height)
        middle = len(page.pieces) - sum(map(len, top)) - sum(map(len, bottom))
        rows_of_page = len(top) + len(bottom) + middle
        right = max((piece.x1 for piece in page.pieces), default=0.0)
        for name, rows in (("top", top[:_MOST_ROWS]), ("bottom", bottom[::-1][:_MOST_ROWS])):
            # A page of nothing else does not prove that a line repeats without being text.
            yield [
                self._describe(name, page.index, row, place + 1 >= rows_of_page, body, right)
                for place, row in enumerate(rows)
            ]

    def _describe(self, side: str, index: int, row: Sequence[Piece], alone: bool, body: float, right: float) -> _Row:
        text = " ".join(piece.text for piece in row)
        place = (side, round(row[0].y), round(row[0].size, 1))
        large = any(piece.size > _LARGE * body for piece in row)
        heads = large or any(piece.bold or any(word.tag for word in piece.words) for piece in row)
        if len(text) > _LONGEST:
            return _Row(tuple(row), (), (), place, heads, alone)
        keys: list[_Key] = [(place, text)]
        numbers: list[tuple[str, int]] = []
        bare = _read_bare(text.lower())
        if bare and not (large and side == "top" and not _LETTERS.search(text)):
            numbers, heads = [("#", number) for number in bare], False
            if not text[0].isdigit():
                keys.append((place, "#"))
        elif not bare:
            # Running heads are smaller than text, or where nothing else tells it, they have numbers of these pages.
            most = math.inf if place[2] < body else self._total + _AFTER
            numbers = [(rest, number) for rest, number in _find_apart(text, row, right) if number <= most]
            numbers += [_cut(text, match) for match in _NAMED.finditer(text)]
            numbers += [_cut(text, match) for match in _OF.finditer(text) if int(match[2]) == self._total]
        pairs = [((place, "#", number - index), (place, rest)) for rest, number in numbers]
        return _Row(tuple(row), tuple(keys), tuple(pairs), place, heads, alone)


def _name_table(table: Table, page: "_Page") -> list[_Key]:
    """The place of a small table at the top or bottom of a page, with its text and with the page number in it."""
    middle = page.low + _ZONE * page.height < table.y < page.low + (1 - _ZONE) * page.height
    if middle or len(table.rows) > _MOST_ROWS:
        return []
    place = (round(table.x0), round(table.y), round(table.x1))
    text = " ".join(chain.from_iterable(table.rows))
    return [(place, text), *((place, int(number) - page.index) for number in _NAMED.findall(text))]


def _read_bare(text: str) -> list[int]:
    """The numbers of a line that is a page number, such as - 3 -, iv, and Page 3 of 10."""
    if _AMOUNT.search(text):
        return []
    rest, count = _NUMBER.subn(" ", text)
    if count > 2 or not all(map(_PAGE.fullmatch, _LETTERS.findall(rest))):
        return []
    return [int(number) if number.isdecimal() else _read_roman(number) for number in _NUMBER.findall(text)]


def _read_roman(number: str) -> int:
    values = [{"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}[letter] for letter in number]
    return sum(-value if value < after else value for value, after in zip(values, [*values[1:], 0], strict=True))


def _cut(text: str, match: re.Match[str]) -> tuple[str, int]:
    group = 1 if match[1] else 2
    return f"{text[: match.start(group)]}#{text[match.end(group) :]}", int(match[group])


def _find_apart(text: str, row: Sequence[Piece], right: float) -> Iterator[tuple[str, int]]:
    """The numbers that a sign sets apart, or that are at the margins, far from the rest of the line, with the rest."""
    yield from (_cut(text, match) for match in _SIGNED.finditer(text))
    first, last = row[0], row[-1]
    if len(row) > 1 and _SHORT.fullmatch(last.text) and last.x1 > right - last.size:
        yield " ".join(piece.text for piece in row[:-1]), int(last.text)
    if len(row) > 1 and _SHORT.fullmatch(first.text) and row[1].x0 - first.x1 > _FAR * first.size:
        yield " ".join(piece.text for piece in row[1:]), int(first.text)


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
            if pdfium.flatten_fields(page):
                page.close()
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
