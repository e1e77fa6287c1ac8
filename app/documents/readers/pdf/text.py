"""Writes the blocks of the pages as one text, and marks its headings, tables and hidden words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from app.documents.parsed import ParsedDocument
from app.documents.readers.builder import TextBuilder
from app.documents.readers.pdf.blocks import Block, ends_sentence
from app.documents.readers.pdf.lines import HIDDEN_MARKS, REASONS, join_lines
from app.documents.readers.pdf.structure import Candidate, OutlineItem, Style, find_levels, find_title
from app.documents.readers.text import clean_text, collapse_spaces

_SAME_SIZE = 0.6
_SENTENCE = 30
"""Least length of a text that continues; a shorter one is a label."""
_LEAST_HIDDEN = 3
"""Letters and digits of a block; fewer are dots and symbols of drawings, which hide nothing."""
_ASIDES = ("footnote", "turned")
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
        self._title: str | None = None

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
        self._title = find_title(self._candidates, lengths, self._first_end)
        for candidate, level in find_levels(self._candidates, lengths, self._pages):
            self._builder.mark_heading(candidate.start, candidate.title, level)
        return self._written

    def finish(self, title: str | None, total_pages: int, pages_without_text: Sequence[int]) -> ParsedDocument:
        """The document; if the file states no title, with the title that its first page shows."""
        return self._builder.finish(
            "pdf", title=title or self._title, total_pages=total_pages, pages_without_text=pages_without_text
        )

    def _write(self, number: int, blocks: Sequence[Block], items: Sequence[OutlineItem], recognised: bool) -> None:
        parts: list[str] = []
        length = 0
        headings: list[tuple[int, Block, str]] = []
        tables: list[tuple[int, int, int]] = []
        hidden: list[tuple[int, int, str]] = []
        before: Block | None = None
        for block in blocks:
            marked = clean_text_keeping_marks(block.text)
            text, spans = _take_marks(marked)
            if not text.strip():
                continue
            if before is not None:
                gap = _find_gap(before, block)
                parts.append(gap)
                length += len(gap)
            if block.kind == "heading":
                headings.append((length, block, text))
            elif block.kind == "table":
                end = len(_take_marks(marked[: block.header])[0])
                tables.append((length, length + end, length + len(text)))
            if sum(map(str.isalnum, "".join(text[start:end] for start, end, _ in spans))) >= _LEAST_HIDDEN:
                hidden.extend((length + start, length + end, mark) for start, end, mark in spans)
            parts.append(text)
            length += len(text)
            before = block
        page = "".join(parts)
        span = self._builder.add_page(number, page, self._gap)
        self._first_end = self._first_end or span.end
        self._written = self._written or span.start < span.end
        if recognised:
            self._builder.mark_recognised(span.start, span.end)
        for start, block, text in headings:
            title = collapse_spaces(text)
            self._candidates.append(
                Candidate(
                    span.start + start,
                    title,
                    block.style,
                    block.numbers,
                    block.level,
                    block.tag,
                    block.likely,
                )
            )
        for start, header_end, end in tables:
            if start == header_end:
                # The rest of the table at the end of the page before.
                self._builder.extend_table(span.start + end)
                continue
            self._builder.mark_table(span.start + start, span.start + header_end, span.start + end)
        for start, end, mark in hidden:
            self._builder.mark_hidden(span.start + start, span.start + end, REASONS[mark])  # type: ignore[arg-type]
        for item in items:
            if not item.found:
                found = re.search(r"\s+".join(map(re.escape, item.title.split())), page)
                start = span.start + (found.start() if found else 0)
                self._candidates.append(Candidate(start, item.title, (0, False), 0, item.level))
        self._candidates.sort(key=lambda candidate: candidate.start)


def clean_text_keeping_marks(text: str) -> str:
    """Clean text, whose marks of hidden words are control characters."""
    if HIDDEN_MARKS.search(text) is None:
        return clean_text(text).strip("\n")
    parts = HIDDEN_MARKS.split(text)
    marks = HIDDEN_MARKS.findall(text)
    cleaned = [clean_text(part) for part in parts]
    return (cleaned[0] + "".join(mark + part for mark, part in zip(marks, cleaned[1:], strict=True))).strip("\n")


def _take_marks(text: str) -> tuple[str, list[tuple[int, int, str]]]:
    """The text without marks, and the hidden spans (start, end, mark) in it."""
    if HIDDEN_MARKS.search(text) is None:
        return text, []
    parts: list[str] = []
    spans: list[tuple[int, int, str]] = []
    length = at = 0
    opened: tuple[int, str] | None = None
    for match in HIDDEN_MARKS.finditer(text):
        parts.append(text[at : match.start()])
        length += match.start() - at
        at = match.end()
        if opened is not None and length > opened[0]:
            spans.append((opened[0], length, opened[1]))
        opened = (length, match.group()) if match.group() in REASONS else None
    parts.append(text[at:])
    return "".join(parts), spans


def _find_gap(before: Block, block: Block) -> str:
    if block.kind == "heading":
        named = block.level is not None or block.tag is not None
        follows = before.kind == "heading" and before.level is before.tag is None
        return "\n" if follows and not named else "\n\n\n"
    return "\n" if before.kind == block.kind == "item" else "\n\n"


def _move_asides(blocks: list[Block]) -> list[Block]:
    """Footnotes and turned text follow the text of the page, but precede a sentence that continues on the next page."""
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
    return before.text.endswith("-") or HIDDEN_MARKS.sub("", block.text)[:1].islower()


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
