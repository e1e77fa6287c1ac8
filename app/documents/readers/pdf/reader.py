"""PDF, through PDFium: a batch of pages after the other is read, freed of running lines and put into order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pypdfium2

from app.documents.ocr.access import explain_missing_text
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.patience import Pace
from app.documents.readers.builder import TextBuilder
from app.documents.readers.pdf import pdfium
from app.documents.readers.pdf.blocks import Block, build_blocks
from app.documents.readers.pdf.cells import Table
from app.documents.readers.pdf.columns import join_regions, order_items
from app.documents.readers.pdf.drawings import read_drawings, turn_rules
from app.documents.readers.pdf.furniture import Furniture
from app.documents.readers.pdf.hiding.marking import mark_hidden
from app.documents.readers.pdf.hyphenation import clean_plain, join_hyphenation
from app.documents.readers.pdf.lines import Piece, find_pieces
from app.documents.readers.pdf.structure.headings import Style
from app.documents.readers.pdf.structure.outline import PageOutline, read_outline
from app.documents.readers.pdf.structure.tags import Tags
from app.documents.readers.pdf.tables import take_ruled_tables
from app.documents.readers.pdf.text import PdfText
from app.documents.readers.pdf.words import Box, Word, find_turns, read_words
from app.documents.readers.scans import read_scan
from app.documents.readers.text import clean_text, collapse_spaces
from app.errors import UnreadableDocument

_PROGRAM_TITLE = re.compile(
    r"^(?:untitled|unknown|microsoft \w+ - .*|.*\.(?:docx?|tex|dvi|indd|qxd|pdf|pptx?))$", re.I
)
_BATCH = 50
"""Pages whose lines are in memory together."""
_SAMPLE = 500
"""Words of a page that show whether it is a scan."""
_MOST_WORDS = 20_000
"""Of a page that is put into order; a page with more is a drawing."""


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
                raise UnreadableDocument(
                    f"the file has more than {limits.max_characters:,} characters of text"
                )
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


def _order_blocks(
    items: Sequence[Piece | Table], body: float, outline: PageOutline, middle: float
) -> list[Block]:
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
