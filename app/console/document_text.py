"""Show part of a document's text as blocks (headings, lists, tables, code), with its chunks marked."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from app.db.queries.entries import ChunkSpan
from app.knowledge.entries.reading import DocumentPart, TextPart
from app.knowledge.search.answer.plain_text import INCLUSION

Style = Literal["plain", "code", "strong", "em", "del"]

LONGEST = 400
"""Most characters between two marks, which keeps the time for a text with many single marks linear."""

_MARKS = re.compile(
    rf"""
      (?P<fence>`{{1,4}})(?!`)(?P<code>.{{1,{LONGEST}}}?)(?<!`)(?P=fence)(?!`)
    | \*\*(?=[^\s*])(?P<strong>.{{1,{LONGEST}}}?)(?<=\S)\*\*
    | (?<![\w\\])__(?=\S)(?P<strong2>.{{1,{LONGEST}}}?)(?<=\S)__(?!\w)
    | (?<![\w*\\])\*(?=[^\s*])(?P<em>[^*]{{1,{LONGEST}}}?)(?<=\S)\*(?![\w*])
    | (?<![\w\\])_(?=[^\s_])(?P<em2>[^_]{{1,{LONGEST}}}?)(?<=\S)_(?!\w)
    | ~~(?=\S)(?P<del>.{{1,{LONGEST}}}?)(?<=\S)~~
    | !?\[(?P<link>[^\[\]]{{1,{LONGEST}}})\]\((?:[^()\s]|\([^()\s]{{0,200}}\)){{0,{LONGEST}}}(?:\s"[^"\n]{{0,200}}")?\)
    | \\(?P<escaped>[!-/:-@\[-`{{-~])
    """,
    re.VERBOSE | re.DOTALL,
)
_STYLES: dict[str, Style] = {
    "code": "code", "strong": "strong", "strong2": "strong", "em": "em", "em2": "em", "del": "del",
    "link": "plain", "escaped": "plain",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text that is shown, in a style. Marks belong to no span. The template escapes the text."""

    start: int
    end: int
    style: Style


def read_marks(text: str, start: int = 0, end: int | None = None, style: Style = "plain") -> Iterator[Span]:
    """Yield the parts of a text that are shown, in order."""
    end = len(text) if end is None else end
    while match := _MARKS.search(text, start, end):
        if match.start() > start:
            yield Span(start, match.start(), style)
        name = next(name for name, value in match.groupdict().items() if value and name != "fence")
        inner = _STYLES[name]
        first, last = match.span(name)
        if name in ("code", "escaped"):
            yield Span(first, last, "code" if name == "code" else style)
        else:
            yield from read_marks(text, first, last, style if inner == "plain" else inner)
        start = match.end()
    if start < end:
        yield Span(start, end, style)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of text; `begins` are the chunks whose first character in the part it has, `within` all it is of."""

    text: str
    begins: Sequence[ChunkSpan]
    within: Sequence[ChunkSpan]

    @property
    def kind(self) -> str:
        """The class that it is shown with: neighbouring chunks differ, and so does what belongs to several."""
        if not self.within:
            return "gap"
        if len(self.within) > 1:
            return "chunk shared"
        return "chunk odd" if self.within[0].number % 2 else "chunk even"


def mark_chunks(part: TextPart) -> list[Stretch]:
    """Cut the part wherever a chunk begins or ends; the stretches together are the whole part.

    Chunks may overlap, leave gaps, and have positions outside the text.
    """
    end = part.start + len(part.text)
    chunks = [c for c in part.chunks if c.start < c.end and c.start < end and c.end > part.start]
    bounds = {part.start, end}
    for chunk in chunks:
        bounds |= {max(chunk.start, part.start), min(chunk.end, end)}
    places = sorted(bounds)
    stretches: list[Stretch] = []
    open_chunks: list[ChunkSpan] = []
    waiting = sorted(chunks, key=lambda c: (c.start, c.number))
    for first, last in itertools.pairwise(places):
        open_chunks = [c for c in open_chunks if c.end > first]
        begins: list[ChunkSpan] = []
        while waiting and waiting[0].start <= first:
            begins.append(waiting.pop(0))
        open_chunks += begins
        stretches.append(Stretch(part.text[first - part.start : last - part.start], begins, tuple(open_chunks)))
    return stretches


_ITEM = re.compile(r"\s{0,6}(?:[-*•‣◦]|\d{1,3}[.)])\s+(?=\S)")
_NUMBER = re.compile(r"\s*\d")
_FENCE = re.compile(r"\s{0,3}(?:`{3,}|~{3,})")
_MARKS_OF_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+|\s+#+\s*$")
_CELL = re.compile(r"(?<!\\)\|")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?P<lines>(?:(?!---|\.\.\.)[^\n]*\n){1,200})(?:---|\.\.\.)[ \t]*(?:\n|$)")
_FACT = re.compile(r"(?P<name>[\w][\w .-]{0,80}):(?P<value>(?:\s.*)?)$", re.DOTALL)
_UNSEEN = re.compile(
    rf"""
      ^[ ]{{0,3}}(?P<fence>`{{3,}}|~{{3,}})[^\n]*(?:\n(?![ ]{{0,3}}(?P=fence))[^\n]*)*(?:\n[ ]{{0,3}}(?P=fence)[^\n]*)?
    | (?P<ticks>`{{1,4}})[^`\n]{{1,400}}(?P=ticks)
    | (?P<unseen><!--(?:(?!-->).){{0,4000}}+-->|^[ \t]*{INCLUSION})
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
"""What a reader of Markdown does not see: comments, and lines that include another file. Code, where they are text, is
matched first."""
_SPACES = re.compile(r"(?P<hard>\\\n[ \t]*)|[ \t]*\n[ \t]*|[ \t]{2,}")
"""A line break that is to be seen, or white space that reads as a space."""
_UNDERLINE = re.compile(r"\s{0,3}(?:=+|-+)\s*")
TOP = 3
"""The page's own headings have levels 1 and 2."""

LOWEST = 6


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of text; `marked` if it belongs to the passage that the reader came for."""

    text: str
    marked: bool
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table."""

    cells: Sequence[str]
    marked: bool


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a document.

    Attributes:
        kind: `items` and `numbered` are lists, `page` is a page break.
        pieces: of a heading, paragraph or code.
        items: the pieces of each item of a list.
        header, rows: of a table; `header` is empty if it has none.
        level: of a heading in HTML, 3 to 6.
        number: of the page that begins.
        start: the offset in the document's text, which is unique among headings.
    """

    kind: Literal["heading", "paragraph", "items", "numbered", "table", "code", "page"]
    start: int
    pieces: Sequence[Piece] = ()
    items: Sequence[Sequence[Piece]] = ()
    header: Sequence[str] = ()
    rows: Sequence[Row] = ()
    level: int = 0
    number: int = 0


def make_blocks(part: DocumentPart, *, is_code: bool = False, is_markdown: bool = False) -> list[Block]:
    """Cut a part of a text into blocks; `is_code` if its line breaks and spaces mean something.

    With `is_markdown`, marks within lines become styles, and the front matter is a table.
    """
    if is_code:
        end = part.start + len(part.text)
        return (
            [Block("code", part.start, pieces=_cut(part, part.start, _trim(part, part.start, end)))]
            if part.text.strip()
            else []
        )
    return list(_Reader(part, is_markdown=is_markdown).read())


class _Reader:
    """Reads the lines of a part one after another."""

    def __init__(self, part: DocumentPart, *, is_markdown: bool) -> None:
        self._part = replace(part, text=_blank_unseen(part.text)) if is_markdown else part
        self._is_markdown = is_markdown
        self._pages = list(reversed(part.pages))
        self._headings = list(reversed(part.headings))
        self._tables = list(reversed(part.tables))
        self._lines: list[tuple[int, int]] = []
        self._in_code = False

    def read(self) -> Iterator[Block]:
        end_of_table = -1
        front = _FRONT_MATTER.match(self._part.text) if self._is_markdown and not self._part.start else None
        if front is not None:
            end_of_table = front.end()
            self._headings = [heading for heading in self._headings if heading.start >= end_of_table]
            yield self._make_facts(*front.span("lines"))
        for start, end in self._list_lines():
            if start < end_of_table:
                continue
            while self._pages and self._pages[-1].start < end:
                yield from self._flush()
                page = self._pages.pop()
                yield Block("page", page.start, number=page.number)
            if self._tables and self._tables[-1].start < end:
                yield from self._flush()
                table = self._tables.pop()
                end_of_table = table.end
                yield self._make_table(start, min(table.end, self._part.start + len(self._part.text)), table.header)
            elif self._headings and self._headings[-1].start < end:
                yield from self._flush()
                yield from self._make_headings(start, end)
            elif _FENCE.match(self._text(start, end)):
                self._lines.append((start, end))
                if self._in_code:
                    yield from self._flush()
                self._in_code = not self._in_code
            elif not self._in_code and not self._text(start, end).strip():
                yield from self._flush()
            else:
                self._lines.append((start, end))
        yield from self._flush()

    def _list_lines(self) -> Iterator[tuple[int, int]]:
        start = self._part.start
        for line in self._part.text.splitlines(keepends=True):
            yield start, start + len(line)
            start += len(line)

    def _text(self, start: int, end: int) -> str:
        return self._part.text[start - self._part.start : end - self._part.start]

    def _make_headings(self, start: int, end: int) -> Iterator[Block]:
        """The heading of a line; others that begin in the same line have no line of their own."""
        heading = self._headings.pop()
        while self._headings and self._headings[-1].start < end:
            self._headings.pop()
        line = self._text(start, end)
        text = _MARKS_OF_HEADING.sub("", line.rstrip("\n")).strip()
        first = start + max(0, line.find(text))
        level = min(LOWEST, TOP + heading.level - 1)
        yield Block("heading", heading.start, pieces=self._cut(first, first + len(text)), level=level)

    def _make_table(self, start: int, end: int, header: str | None) -> Block:
        lines: list[tuple[int, str]] = []
        place = start
        for line in self._text(start, end).splitlines(keepends=True):
            lines.append((place, line))
            place += len(line)
        # A table that begins in an earlier part has its header from there.
        head = lines[0][1] if header is None else header.partition("\n")[0]
        body = lines[2:] if header is None else lines
        passage = self._part.passage
        rows = [
            Row(self._split(line), passage is not None and at < passage[1] and at + len(line) > passage[0])
            for at, line in body
            if line.strip()
        ]
        return Block("table", start, header=self._split(head), rows=rows)

    def _split(self, line: str) -> list[str]:
        cells = _split_cells(line)
        if not self._is_markdown:
            return cells
        return ["".join(cell[s.start : s.end] for s in read_marks(cell)) for cell in cells]

    def _make_facts(self, start: int, end: int) -> Block:
        """The front matter as a table: a line without a name of its own continues the one before."""
        rows: list[Row] = []
        passage = self._part.passage
        for line in self._text(start, end).splitlines(keepends=True):
            marked = passage is not None and start < passage[1] and start + len(line) > passage[0]
            start += len(line)
            fact = _FACT.match(line)
            if fact is not None:
                rows.append(Row([fact["name"], fact["value"].strip()], marked))
            elif rows and line.strip():
                name, value = rows[-1].cells
                rows[-1] = Row([name, f"{value} {line.strip()}".strip()], rows[-1].marked or marked)
        return Block("table", 0, rows=rows)

    def _flush(self) -> Iterator[Block]:
        lines, self._lines = self._lines, []
        if not lines:
            return
        first = self._text(*lines[0])
        if _FENCE.match(first):
            closed = len(lines) > 1 and _FENCE.match(self._text(*lines[-1]))
            inner = lines[1:-1] if closed else lines[1:]
            if inner:
                start, end = inner[0][0], inner[-1][1]
                yield Block("code", start, pieces=_cut(self._part, start, _trim(self._part, start, end)))
            return
        lines = [line for line in lines if not _UNDERLINE.fullmatch(self._text(*line).rstrip("\n"))]
        items: list[tuple[int, int]] = []
        text: tuple[int, int] | None = None
        for start, end in lines:
            if _ITEM.match(self._text(start, end)):
                items.append((start, end))
            elif items:
                items[-1] = (items[-1][0], end)
            else:
                text = (start if text is None else text[0], end)
        if text is not None:
            yield Block("paragraph", text[0], pieces=self._cut(*text))
        if items:
            numbered = bool(_NUMBER.match(self._text(*items[0])))
            shown = [self._cut_item(*item, numbered=numbered) for item in items]
            yield Block("numbered" if numbered else "items", items[0][0], items=shown)

    def _cut(self, start: int, end: int) -> Sequence[Piece]:
        """Text in pieces: where the passage begins and ends and, in Markdown, where a style does."""
        end = _trim(self._part, start, end)
        if not self._is_markdown:
            return _cut(self._part, start, end)
        return [
            replace(piece, text=_SPACES.sub(_fold, piece.text), style=span.style)
            for span in read_marks(self._text(start, end))
            for piece in _cut(self._part, start + span.start, start + span.end)
        ]

    def _cut_item(self, start: int, end: int, *, numbered: bool) -> Sequence[Piece]:
        """The text of an item; a number stays, since lists may begin with any."""
        mark = _ITEM.match(self._text(start, end))
        return self._cut(start if numbered or mark is None else start + mark.end(), end)


def _blank_unseen(text: str) -> str:
    """The text with spaces in place of what a reader does not see."""
    if "<!--" not in text and "8<-" not in text:
        return text
    return _UNSEEN.sub(lambda found: re.sub(r"[^\n]", " ", found[0]) if found["unseen"] else found[0], text)


def _fold(space: re.Match[str]) -> str:
    return "\n" if space["hard"] else " "


def _trim(part: DocumentPart, start: int, end: int) -> int:
    """The end of a text without its last line breaks."""
    text = part.text[start - part.start : end - part.start]
    return end - len(text) + len(text.rstrip("\n"))


def _cut(part: DocumentPart, start: int, end: int) -> Sequence[Piece]:
    """Cut text where the passage begins and ends."""
    first, last = part.passage or (end, end)
    places = [start, min(max(first, start), end), min(max(last, start), end), end]
    pieces = [Piece(part.text[a - part.start : b - part.start], n == 1) for n, (a, b) in enumerate(pairwise(places))]
    return [piece for piece in pieces if piece.text]


def _split_cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(inner)]
