"""Paragraphs, list items, code, tables and possible headings of a page, column after column."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from statistics import median
from typing import Literal

from app.documents.readers.pdf.lines import Piece, ends_sentence, find_rows, is_right_to_left, join_lines, join_row
from app.documents.readers.pdf.structure import PageOutline, find_tag
from app.documents.readers.pdf.tables import Table, find_aligned_tables, has_leader
from app.documents.readers.pdf.words import Tag
from app.documents.runs import cut_runs

Item = Piece | Table

_MAX_DEPTH = 4
_LEAST_LINES = 4
_LEAST_GUTTER = 6.0
_MOST_CROSSING = 0.5
"""Pieces that span the columns, for each piece of the smaller column."""
_WORDS_OF_PROSE = 3.5
_FULL_LINE = 0.55
_MANY_LINES = 8
_ALIGNED = 0.5


def order_items(items: Sequence[Item], depth: int = 0) -> Iterator[list[Item]]:
    """Regions of one column each, in reading order; within a region, lines are in order. Columns are read in the
    direction of most of their text."""
    gutter = _find_gutter(items) if depth < _MAX_DEPTH and len(items) >= 2 * _LEAST_LINES else None
    if gutter is None:
        yield list(items)
        return
    ordered = sorted(items, key=lambda item: -item.y)
    for across, band in groupby(ordered, key=lambda item: item.x1 > gutter + 1 and item.x0 < gutter - 1):
        if across:
            yield from ([item] for item in band)
        else:
            found = list(band)
            left = [item for item in found if item.x1 <= gutter + 1]
            yield from _order_band(left, [item for item in found if item.x1 > gutter + 1], depth)


def join_regions(regions: Iterator[list[Item]]) -> Iterator[list[Item]]:
    """Join successive regions that are single lines: they are text across the columns."""
    for run in cut_runs(regions, lambda run, region: len(run[0]) > 1 or len(region) > 1):
        yield [item for region in run for item in region]


def _order_band(left: Sequence[Item], right: Sequence[Item], depth: int) -> Iterator[list[Item]]:
    sides = (left, right)
    if depth < _MAX_DEPTH and is_right_to_left(
        " ".join(item.text for item in (*left, *right) if isinstance(item, Piece))
    ):
        sides = (right, left)
    for side in sides:
        if side:
            yield from order_items(side, depth + 1)


def _find_gutter(items: Sequence[Item], depth: int = 0, *, of_prose: bool = False) -> float | None:
    """Find a vertical band of white between two columns of text; None if the text has one column."""
    first, last = min(item.x0 for item in items), max(item.x1 for item in items)
    width = int(last - first) + 2
    if not 80 < width < 20_000:
        return None
    changes = [0] * (width + 2)
    for item in items:
        changes[int(item.x0 - first)] += 1
        changes[int(item.x1 - first) + 1] -= 1
    cover = list(accumulate(changes[:width]))
    for start, end in _list_valleys(cover, len(items)):
        gutter = first + (start + end) / 2
        left = [item for item in items if item.x1 <= gutter + 1]
        right = [item for item in items if item.x0 >= gutter - 1]
        crossing = len(items) - len(left) - len(right)
        fewer = min(len(left), len(right))
        if fewer < _LEAST_LINES or crossing > _MOST_CROSSING * max(fewer, 6):
            continue
        if _are_columns(left, right, depth, of_prose=of_prose):
            return gutter
    return None


def _list_valleys(cover: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Bands that few pieces cross, those crossed by the fewest first."""
    valleys: list[tuple[int, int, int]] = []
    for level in sorted({min(cover[len(cover) // 8 : -len(cover) // 8] or [0]), 0, count // 12, count // 5}):
        start = None
        for place, crossing in enumerate(cover):
            if crossing <= level:
                start = place if start is None else start
            elif start is not None:
                if start > 0 and place - start >= _LEAST_GUTTER:
                    valleys.append((level, start, place))
                start = None
    valleys.sort(key=lambda valley: (valley[0], valley[1] - valley[2]))
    seen: list[tuple[int, int]] = []
    for _, start, end in valleys:
        if not any(start < other_end and other_start < end for other_start, other_end in seen):
            seen.append((start, end))
    return seen[:6]


def _are_columns(left: Sequence[Item], right: Sequence[Item], depth: int, *, of_prose: bool) -> bool:
    """Whether two sides are columns of text, or consist of such, and are not columns of a table."""
    sides = [find_rows([item for item in side if isinstance(item, Piece)]) for side in (left, right)]
    if min(map(len, sides)) < _LEAST_LINES:
        return False
    prose = list(map(_is_prose, sides))
    if all(prose):
        return True
    if any(prose) and depth < _MAX_DEPTH:
        several = right if prose[0] else left
        if _find_gutter(several, depth + 1, of_prose=True) is not None:
            return True
    if of_prose or min(map(len, sides)) < _MANY_LINES:
        return False
    levels = [[row[0].y for row in side] for side in sides]
    shorter, longer = sorted(levels, key=len)
    span = max(longer[0] - longer[-1], 1)
    if (shorter[0] - shorter[-1]) < 0.5 * span:
        return False
    aligned = sum(1 for y in shorter if any(abs(y - other) < 1 for other in longer))
    return aligned < _ALIGNED * len(shorter)


def _is_prose(rows: Sequence[list[Piece]]) -> bool:
    first = min(row[0].x0 for row in rows)
    width = max(row[-1].x1 for row in rows) - first
    words = sum(len(piece.words) for row in rows for piece in row)
    filled = median(row[-1].x1 - row[0].x0 for row in rows)
    return words >= _WORDS_OF_PROSE * len(rows) and filled >= _FULL_LINE * width and width > 60


Kind = Literal["paragraph", "item", "code", "table", "heading", "footnote", "aside"]

_BULLET = re.compile(r"[•‣◦▪■●○∙·▶►▸➢➤\uf0b7\uf0a7\uf076]\s*|[–—*-]\s+")
_ITEM = re.compile(rf"(?:{_BULLET.pattern})\S|(?:\(?(?:\d{{1,3}}|[a-zA-Z]|[ivx]{{1,5}})[.)]|\[\d{{1,3}}\])\s+\S")
_LEADER = re.compile(r"(?:\s*\.){4,}\s*")
_NUMBERED = re.compile(
    r"(\d{1,3}(?:\.\d{1,3}){0,5})\.?\s+\S|(?:chapter|section|appendix|part|kapitel|anhang)\s+\S", re.I
)
_PAGE_NUMBER = re.compile(r"\s(?:\d+|[ivxlc]+)$")
_SIZE = 0.08
_LARGER = 1.12
_GAP = 1.35
_INDENT = 0.7
_MOST_HEADING = 200
_MOST_HEADING_LINES = 3
_FOOTNOTE = 0.93
_TOC_LINES = 5


@dataclass(slots=True)
class Block:
    """A part of a page's text.

    Attributes:
        kind: a heading may be one; the whole document decides.
        text: with marks around hidden words.
        style: size of the font and whether it is bold.
        header: length of the header of a table.
        level: by the outline, None if it does not name this heading.
        tag: level of a heading by the tags of the file.
        likely: whether a heading looks like one.
        numbers: how many numbers precede a heading: 2 for `5.3`.
        y: where it begins.
        recognised: whether its text was recognised on a picture.
    """

    kind: Kind
    text: str
    style: tuple[float, bool]
    y: float
    header: int = 0
    level: int | None = None
    tag: int | None = None
    likely: bool = False
    numbers: int = 0
    table: Table | None = None
    recognised: bool = False


@dataclass(slots=True)
class _Line:
    """A line from where it begins, `x0`, to where it ends; the places of one from right to left are negative."""

    text: str
    x0: float
    x1: float
    y: float
    size: float
    bold: bool
    fixed: bool
    first_width: float
    begins: bool
    tag: Tag | None
    level: int | None = None
    follows_heading: bool = False


def build_blocks(region: Sequence[Item], body: float, outline: PageOutline, middle: float) -> list[Block]:
    """The blocks of a region; `body` is the size of most of the document's text, `middle` the height of the page's."""
    blocks: list[Block] = []
    waiting: list[list[Piece]] = []
    places: list[tuple[float, Table | list[Piece]]] = [
        (row[0].y, row) for row in find_rows(item for item in region if isinstance(item, Piece))
    ]
    places.extend((item.y, item) for item in region if isinstance(item, Table))
    for _, item in sorted(places, key=lambda place: -place[0]):
        if isinstance(item, Table):
            blocks.extend(_build_rows(waiting, body, outline))
            blocks.append(_write_table(item))
            waiting = []
        else:
            waiting.append(item)
    blocks.extend(_build_rows(waiting, body, outline))
    _find_footnotes(blocks, body, middle)
    return blocks


def _build_rows(rows: Sequence[list[Piece]], body: float, outline: PageOutline) -> Iterator[Block]:
    place = 0
    for start, end, found in find_aligned_tables(rows):
        yield from _group([_read_line(row) for row in rows[place:start]], body, outline)
        if isinstance(found, Table):
            yield _write_table(found)
        else:
            for column in found:
                yield from _group([_read_line(row) for row in column], body, outline)
        place = end
    yield from _group([_read_line(row) for row in rows[place:]], body, outline)


def _write_table(table: Table) -> Block:
    text, header = table.render()
    return Block("table", text, (table.size, False), table.y, header, table=table)


def _read_line(row: Sequence[Piece]) -> _Line:
    piece = join_row(row)
    text = piece.text
    word = piece.words[0]
    x0, x1 = piece.x0, piece.x1
    if is_right_to_left(text):
        x0, x1 = -x1, -x0
    return _Line(
        text,
        x0,
        x1,
        piece.y,
        piece.size,
        piece.bold,
        # Prose can consist of an address for the most part; a number can precede a line of code.
        piece.fixed and (word.style.fixed or word.text.isdigit()),
        word.x1 - word.x0,
        _ITEM.match(text) is not None,
        find_tag(piece.words),
    )


def _group(lines: list[_Line], body: float, outline: PageOutline) -> Iterator[Block]:
    if not lines:
        return
    for start, end, level in outline.find([line.text for line in lines]):
        lines[start].level = level
        for line in lines[start + 1 : end + 1]:
            line.follows_heading = True
    contents = _are_contents(lines)
    gaps = [above.y - line.y for above, line in pairwise(lines)]
    leading = median([gap for gap in gaps if gap > 0] or [12.0])
    for group in cut_runs(lines, lambda group, line: _breaks(group, line, leading, body)):
        yield from _cut_group(group, body, contents)


def _breaks(group: Sequence[_Line], line: _Line, leading: float, body: float) -> bool:
    """Whether a line begins another block: by a gap, another font or the outline, or a heading set elsewhere."""
    above = group[-1]
    if above.tag is not line.tag:
        return True
    if line.tag is not None:
        return False
    gap = above.y - line.y
    usual = min(leading, 1.5 * line.size) if leading > line.size else 1.2 * line.size
    if gap <= 0 or gap > _GAP * usual + 0.5:
        return True
    if abs(above.size - line.size) > _SIZE * max(above.size, line.size):
        return True
    shifts = (above.x0 - line.x0, above.x1 - line.x1, (above.x0 + above.x1 - line.x0 - line.x1) / 2)
    if line.size >= _LARGER * body and min(map(abs, shifts)) > line.size:
        return True
    if above.bold != line.bold and (all(other.bold for other in group) or line.bold):
        return True
    return above.fixed != line.fixed or line.level is not None or (above.level is not None and not line.follows_heading)


def _cut_group(lines: Sequence[_Line], body: float, contents: bool) -> Iterator[Block]:
    """Cut lines of one font without gaps into paragraphs and list items."""
    first = lines[0]
    named = not contents or (first.size >= _LARGER * body and not _PAGE_NUMBER.search(lines[-1].text))
    likely = named and _looks_like_heading(lines, body)
    text = join_lines([line.text for line in lines])
    tag = first.tag.level if first.tag and not has_leader(text) else None
    if first.level is not None or tag is not None or likely:
        match = _NUMBERED.match(text)
        numbers = match.group(1).count(".") + 1 if match and match.group(1) else 0
        yield Block("heading", text, (first.size, first.bold), first.y, 0, first.level, tag, likely, numbers)
        return
    if contents:
        text = "\n".join(_LEADER.sub(" … ", line.text) for line in lines)
        yield Block("code", text, (first.size, first.bold), first.y)
        return
    if first.fixed:
        left = min(line.x0 for line in lines)
        width = 0.6 * first.size
        text = "\n".join(" " * min(40, round((line.x0 - left) / width)) + line.text for line in lines)
        yield Block("code", text, (first.size, first.bold), first.y)
        return
    right = max(line.x1 for line in lines)
    for paragraph in cut_runs(lines, lambda paragraph, line: _begins_paragraph(paragraph, line, right)):
        yield _join(paragraph, right)


def _begins_paragraph(paragraph: Sequence[_Line], line: _Line, right: float) -> bool:
    first, above = paragraph[0], paragraph[-1]
    if line.begins and (
        first.begins or ends_sentence(above.text) or abs(line.x0 - first.x0) > 2 or _fits(above, line, right)
    ):
        return True
    indent = _INDENT * line.size
    if first.begins:
        # Back to where the item began: its text was indented.
        return len(paragraph) > 1 and line.x0 < above.x0 - indent / 2 and ends_sentence(above.text)
    if len(paragraph) > 1 and paragraph[1].x0 > first.x0 + indent:
        return line.x0 < above.x0 - indent
    if line.x0 > above.x0 + indent and (len(paragraph) > 1 or ends_sentence(above.text)):
        return line.x0 < above.x0 + 6 * line.size
    return ends_sentence(above.text) and _fits(above, line, right) and not line.text[:1].islower()


def _fits(above: _Line, line: _Line, right: float) -> bool:
    """Whether the first word of a line had room on the line above: the break is intended."""
    return above.x1 + line.first_width + 0.8 * line.size < right


def _join(lines: Sequence[_Line], right: float) -> Block:
    first = lines[0]
    parts: list[list[str]] = [[first.text]]
    for above, line in pairwise(lines):
        room = right - above.x1 - line.first_width
        if room > 4 * line.size and not line.text[:1].islower() and not above.text.endswith(("-", ",")):
            parts.append([line.text])
        else:
            parts[-1].append(line.text)
    text = "\n".join(map(join_lines, parts))
    if first.begins:
        bullet = _BULLET.match(text)
        text = f"- {text[bullet.end() :]}" if bullet else text
    return Block("item" if first.begins else "paragraph", text, (first.size, first.bold), first.y)


def _looks_like_heading(lines: Sequence[_Line], body: float) -> bool:
    text = " ".join(line.text for line in lines)
    first = lines[0]
    if len(lines) > _MOST_HEADING_LINES or len(text) > _MOST_HEADING or not re.search(r"[^\W\d_]{2}", text):
        return False
    if has_leader(text) or first.fixed or _BULLET.match(text):
        return False
    if first.size >= _LARGER * body:
        return not (text.endswith((".", ",", ";")) and len(text) > 80)
    if first.size < 0.9 * body or text.endswith((",", ";", ":")) or (text.endswith(".") and not _NUMBERED.match(text)):
        return False
    if first.bold:
        return len(lines) <= 2 and len(text) <= 120 and not text.startswith("[")
    match = _NUMBERED.match(text)
    return (
        len(lines) == 1
        and match is not None
        and "." in (match.group(1) or "")
        and len(text) < 80
        and text[match.end() - 1].isupper()
    )


def _are_contents(lines: Sequence[_Line]) -> bool:
    """Whether lines are a table of contents: most end in a page number after dots or a gap."""
    if len(lines) < _TOC_LINES:
        return False
    led = sum(1 for line in lines if has_leader(line.text))
    return led >= 3 and led > 0.4 * len(lines)


def _find_footnotes(blocks: Sequence[Block], body: float, middle: float) -> None:
    """Mark the last blocks of a column that are set small and begin with a mark, in the lower half of the page or below
    a sentence that goes on elsewhere."""
    for place in range(len(blocks) - 1, -1, -1):
        block = blocks[place]
        if block.kind not in ("paragraph", "item") or block.style[0] > _FOOTNOTE * body:
            return
        above = blocks[place - 1] if place else None
        cut = above is not None and above.kind == "paragraph" and not ends_sentence(above.text)
        if (block.y < middle or cut) and re.match(r"\[\w{1,3}\]|[*∗†‡§¶\d]", block.text):
            for note in blocks[place:]:
                note.kind = "footnote"
