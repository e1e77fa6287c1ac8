"""Pieces of lines: words on one base line without a wide gap between them, and the rows that pieces form."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from app.documents.parsed import HiddenReason
from app.documents.readers.builder import CLOSE, OPEN
from app.documents.readers.pdf.words import RIGHT_TO_LEFT, Word
from app.documents.readers.text import clean_text, join_hyphenation
from app.documents.runs import cut_runs

_SAME_LINE = 0.3
_WIDE_GAP = 0.95
"""Share of the font size; a space is a quarter of it, in justified text seldom more than a half."""
_ENDS = (".", "!", "?", ":", ";", "…", ".”", '."', ".)", "。", "！", "？", "؟", "؛")
# Chinese and Japanese are written without spaces.
_UNSPACED = re.compile("[\u3000-\u9fff\uf900-\ufaff\uff00-\uffef]")


@dataclass(slots=True)
class Piece:
    """Words from left to right; `size`, `bold` and `fixed` apply to most of the text."""

    words: list[Word]
    x0: float = field(init=False)
    x1: float = field(init=False)
    y: float = field(init=False)
    size: float = field(init=False)
    bold: bool = field(init=False)
    fixed: bool = field(init=False)

    def __post_init__(self) -> None:
        words = self.words
        self.x0, self.x1 = words[0].x0, max(word.x1 for word in words)
        style = words[0].style
        if all(word.style is style for word in words):
            self.y, self.size, self.bold, self.fixed = words[0].y, style.size, style.bold, style.fixed
            return
        lengths: dict[float, int] = {}
        bold = fixed = whole = 0
        for word in words:
            length = len(word.text)
            style = word.style
            lengths[style.size] = lengths.get(style.size, 0) + length
            whole += length
            bold += length * style.bold
            fixed += length * style.fixed
        self.size = max(lengths, key=lambda size: (lengths[size], size))
        self.y = next(word.y for word in words if word.style.size == self.size)
        self.bold, self.fixed = bold > 0.9 * whole, fixed > 0.6 * whole

    @property
    def text(self) -> str:
        """Its words, with marks around hidden ones."""
        return join_words(self.words)


def join_words(words: Sequence[Word]) -> str:
    """The text of words on a line."""
    if any(not word.text.isascii() and RIGHT_TO_LEFT.search(word.text) for word in words):
        words = sorted(words, key=lambda word: word.place)
    parts: list[str] = []
    hidden: HiddenReason | None = None
    for word in words:
        if word.hidden != hidden:
            if hidden:
                parts.append(CLOSE)
            if parts and not word.glued:
                parts.append(" ")
            if word.hidden:
                parts.append(OPEN[word.hidden])
            hidden = word.hidden
        elif parts and not word.glued and not meets_unspaced(parts[-1], word.text):
            parts.append(" ")
        parts.append(f"[{word.text}]" if word.raised else word.text)
    if hidden:
        parts.append(CLOSE)
    return "".join(parts)


def is_right_to_left(text: str) -> bool:
    """Whether most letters of a text are Arabic or Hebrew."""
    return not text.isascii() and 2 * len(RIGHT_TO_LEFT.findall(text)) > sum(map(str.isalpha, text))


def ends_sentence(text: str) -> bool:
    """Whether a text ends where a sentence can."""
    return text.rstrip(CLOSE).endswith(_ENDS)


def meets_unspaced(left: str, right: str) -> bool:
    """Whether no space belongs between two texts because their script has none."""
    if left.isascii() or right.isascii():
        return False
    return _UNSPACED.match(left[-1:]) is not None and _UNSPACED.match(right) is not None


def find_pieces(words: Iterable[Word]) -> list[Piece]:
    """Group words by their base lines and cut at wide gaps; from the top of the page down."""

    def is_below(line: list[Word], word: Word) -> bool:
        return line[0].y - word.y > _SAME_LINE * max(line[0].style.size, word.style.size)

    lines = cut_runs(sorted(words, key=lambda word: -word.y), is_below)
    return [piece for line in lines for piece in _cut_line(line)]


def find_rows(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Pieces on the same base line, from left to right; from the top down."""

    def is_below(row: list[Piece], piece: Piece) -> bool:
        return row[0].y - piece.y > _SAME_LINE * max(row[0].size, piece.size)

    rows = cut_runs(sorted(pieces, key=lambda piece: -piece.y), is_below)
    return [sorted(row, key=lambda piece: piece.x0) for row in rows]


def join_row(row: Sequence[Piece]) -> Piece:
    """One piece of all pieces of a row."""
    return row[0] if len(row) == 1 else Piece([word for piece in row for word in piece.words])


def _cut_line(line: list[Word]) -> list[Piece]:
    line.sort(key=lambda word: word.x0)
    pieces = []
    first, end = 0, line[0].x1
    for place, word in enumerate(line):
        if word.x0 - end > _WIDE_GAP * max(word.style.size, line[place - 1].style.size):
            pieces.append(Piece(line[first:place]))
            first = place
        end = max(end, word.x1)
    return [*pieces, Piece(line[first:])]


# PDFium writes the hyphen at the end of a line as U+0002 or U+FFFE and continues on the same line.
_MARKED_BREAK = re.compile("(?<=\\w)[\x02\ufffe](?:\r?\n)?(?=\\w)")


def clean_plain(text: str) -> str:
    """PDFium's own text of a page, with its words rejoined."""
    return join_hyphenation(clean_text(_MARKED_BREAK.sub("-\n", text)))


def join_lines(lines: Sequence[str]) -> str:
    """One line of several."""
    if len(lines) == 1:
        return lines[0]
    joined = join_hyphenation("\n".join(lines)).split("\n")
    parts = [joined[0]]
    for left, right in pairwise(joined):
        parts.append(right if meets_unspaced(left, right) else f" {right}")
    return "".join(parts)
