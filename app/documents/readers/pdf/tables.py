"""Find tables, with rules or only with aligned cells."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from statistics import median

from app.documents.readers.builder import remove_marks
from app.documents.readers.pdf.drawings import Drawings
from app.documents.readers.pdf.lines import (
    Piece,
    ends_sentence,
    find_pieces,
    find_rows,
    is_right_to_left,
    join_lines,
    join_row,
)
from app.documents.readers.pdf.words import Box, Word, surround
from app.documents.readers.tables import render_cells
from app.documents.runs import cut_runs

_NEAR = 3.0


@dataclass(slots=True)
class Table:
    """Cells of text, the header row first; it takes a place among the pieces of a page.

    Attributes:
        y: its upper end, which is its place in the order of lines.
        starts: where its columns begin.
        titled: whether all of its first row is bold.
    """

    rows: list[list[str]]
    x0: float
    x1: float
    y: float
    size: float
    starts: tuple[float, ...]
    titled: bool

    def render(self) -> tuple[str, int]:
        """Markdown rows, and where the header with its delimiter row ends."""
        lines = self._write_rows()
        header = f"{lines[0]}\n|{' --- |' * max(map(len, self.rows))}"
        return "\n".join([header, *lines[1:]]), len(header)

    def continue_from(self, above: Table) -> str | None:
        """Markdown rows without a header if it continues a table of the page before, whose header becomes its own."""
        header = above.rows[0]
        repeated = self.rows[0] == header
        fits = len(above.starts) == len(self.starts) and all(
            abs(one - other) <= _NEAR for one, other in zip(above.starts, self.starts, strict=True)
        )
        if not repeated:
            if not fits or self.titled or len(self.rows[0]) != len(header):
                return None
            self.rows.insert(0, header)
        return "\n".join(self._write_rows()[1:])

    def _write_rows(self) -> list[str]:
        width = max(map(len, self.rows))
        return [render_cells(row, width) for row in self.rows]


_MOST_RULES = 600
_MOST_LINES = 400
"""Rows or columns of one grid; drawings have more."""
_LEADER = re.compile(r"(?:\.\s?){4,}|…{2,}")
_MARKER = re.compile(r"[•‣◦▪■●○–—*·-]|\(?[0-9a-zA-Z]{1,3}[.)]|\[[^\]]{1,12}\]")
_LINE_GAP = 3.0
_TIGHT = 1.35
_MOST_WORDS = 9
_WORDS_OF_PROSE = 3.5
_GOING_ON = 0.35
"""Share of the lines of prose that begin within a sentence; others begin with a name or a sentence."""
_LINES_OF_PROSE = 8
_FULL_LINE = 0.7
"""Share of the width of a column that most of its lines fill."""
_NUMBERED_LINES = 3
_MOST_OF_PAGE = 0.8
_FILLED = 0.5
"""Share of filled cells in a table without rules."""


def take_ruled_tables(words: Sequence[Word], drawings: Drawings) -> tuple[list[Table], list[Word]]:
    """The tables with rules, and the words outside them."""
    tables: list[Table] = []
    rest = list(words)
    grids = ((box, partial(_fill_grid, box=box, xs=xs, ys=ys)) for box, xs, ys in _find_grids(drawings))
    bands = ((box, partial(_fill_band, second_rule=rule)) for box, rule in _find_bands(drawings.horizontal))
    for box, fill in chain(grids, bands):
        inside = [word for word in rest if _is_inside(word, box)]
        table = fill(inside) if inside else None
        if table:
            tables.append(table)
            taken = set(map(id, inside))
            rest = [word for word in rest if id(word) not in taken]
    return tables, rest


def _fill_band(words: Sequence[Word], second_rule: float) -> Table | None:
    rows = find_rows(find_pieces(words))
    return None if _find_prose(rows) else _align(rows, 2, second_rule)


Columns = list[list[list[Piece]]]
"""The lines of columns of prose, one column after the other."""


def find_aligned_tables(rows: Sequence[list[Piece]]) -> Iterable[tuple[int, int, Table | Columns]]:
    """Tables and columns of prose among rows, as (first row, row after the last, table or columns)."""
    start = 0
    while start < len(rows):
        if not _can_start(rows[start]):
            start += 1
            continue
        end = _grow(rows, start)
        found = None
        if end - start >= 3:
            found = _find_prose(rows[start:end]) or _align(rows[start:end], 3, None)
        if found:
            yield start, end, found
            start = end
        else:
            start += 1


def _find_prose(rows: Sequence[list[Piece]]) -> Columns | None:
    """Columns whose lines continue each other, where others would be cells; without the numbers of their lines."""
    starts = [x0 for x0, _ in _merge((piece.x0, piece.x1) for row in rows for piece in row)]
    columns: Columns = [[] for _ in starts]
    for row in rows:
        cells: list[list[Piece]] = [[] for _ in starts]
        for piece in row:
            cells[bisect_right(starts, piece.x0 + 1) - 1].append(piece)
        for column, cell in zip(columns, cells, strict=True):
            if cell:
                column.append(cell)
    lines = max(map(len, columns))
    prose = [column for column in columns if not _are_numbers(column, lines)]
    if len(columns) < 2 or not prose or not all(map(_goes_on, prose)):
        return None
    return prose


def _are_numbers(column: Sequence[list[Piece]], lines: int) -> bool:
    """Whether a column has the numbers of these lines, at the same distance from each other."""
    texts = [join_row(row).text for row in column]
    if len(texts) < _NUMBERED_LINES or not all(text.isdecimal() and len(text) < 6 for text in texts):
        return False
    steps = [int(below) - int(above) for above, below in pairwise(texts)]
    gaps = [above[0].y - below[0].y for above, below in pairwise(column)]
    return 0 < min(steps) == max(steps) and max(gaps) - min(gaps) < _NEAR and len(texts) * steps[0] > 0.7 * lines


def _goes_on(column: Sequence[list[Piece]]) -> bool:
    """Whether most lines continue the sentence of the line above."""
    if sum(len(piece.words) for row in column for piece in row) < _WORDS_OF_PROSE * len(column):
        return False
    widths = [row[-1].x1 - row[0].x0 for row in column]
    if median(widths) < _FULL_LINE * max(widths):
        return False
    texts = [remove_marks(join_row(row).text) for row in column]
    going = sum(1 for above, text in pairwise(texts) if _begins_within(text) and not ends_sentence(above))
    return len(texts) >= 3 and going >= _GOING_ON * (len(texts) - 1)


def _begins_within(text: str) -> bool:
    """Whether a line can continue a sentence; many scripts have no capitals."""
    return text[:1].isalpha() and not text[:1].isupper()


def has_leader(text: str) -> bool:
    """Whether dots lead to a page number, as in a table of contents."""
    return _LEADER.search(text) is not None


def _is_inside(word: Word, box: Box) -> bool:
    x, y = (word.x0 + word.x1) / 2, word.y + 0.3 * word.style.size
    return box.x0 - 1 <= x <= box.x1 + 1 and box.y0 - 1 <= y <= box.y1 + 1


def _find_grids(drawings: Drawings) -> list[tuple[Box, list[float], list[float]]]:
    rules = [(box, True) for box in drawings.horizontal] + [(box, False) for box in drawings.vertical]
    if not drawings.horizontal or not drawings.vertical or len(rules) > _MOST_RULES:
        return []
    rules.sort(key=lambda rule: rule[0].x0)
    group = list(range(len(rules)))

    def find(index: int) -> int:
        while group[index] != index:
            group[index] = group[group[index]]
            index = group[index]
        return index

    for place, (one, _) in enumerate(rules):
        for later in range(place + 1, len(rules)):
            other = rules[later][0]
            if other.x0 > one.x1 + _NEAR:
                break
            if other.y0 <= one.y1 + _NEAR and one.y0 <= other.y1 + _NEAR:
                group[find(later)] = find(place)
    members: dict[int, list[tuple[Box, bool]]] = {}
    for index, rule in enumerate(rules):
        members.setdefault(find(index), []).append(rule)
    grids = []
    for found in members.values():
        box = surround(*(corner for rule, _ in found for corner in (rule[:2], rule[2:])))
        xs = _cluster([rule.x0 for rule, flat in found if not flat] + [box.x0, box.x1])
        ys = _cluster([rule.y0 for rule, flat in found if flat] + [box.y0, box.y1])
        if 3 <= len(xs) <= _MOST_LINES and 3 <= len(ys) <= _MOST_LINES:
            grids.append((box, xs, ys))
    return grids


def _cluster(values: Sequence[float]) -> list[float]:
    return [run[0] for run in cut_runs(sorted(values), lambda run, value: value - run[0] > _NEAR)]


def _fill_grid(words: Sequence[Word], box: Box, xs: list[float], ys: list[float]) -> Table | None:
    cells: dict[tuple[int, int], list[Word]] = {}
    for word in words:
        column = bisect_right(xs, (word.x0 + word.x1) / 2, 1, len(xs) - 1) - 1
        row = len(ys) - 1 - bisect_right(ys, word.y + 0.3 * word.style.size, 1, len(ys) - 1)
        cells.setdefault((row, column), []).append(word)
    columns = sorted({column for _, column in cells})
    if _are_prose(cells, len(words)):
        return None
    rows = [
        part
        for row in sorted({row for row, _ in cells})
        for part in _read_row([cells.get((row, column), []) for column in columns])
    ]
    filled = sum(1 for row in rows for cell in row if cell)
    if len(columns) < 2 or len(rows) < 2 or filled < max(4, 0.34 * len(rows) * len(columns)):
        return None
    starts = tuple(xs[column] for column in columns)
    first = min(row for row, _ in cells)
    titled = all(word.style.bold for (row, _), cell in cells.items() if row == first for word in cell)
    return Table(_order_cells(rows), box.x0, box.x1, box.y1, words[0].style.size, starts, titled)


def _are_prose(cells: Mapping[tuple[int, int], Sequence[Word]], words: int) -> bool:
    """Whether rules part columns of prose: nearly all words are in long cells of one row."""
    rows: dict[int, list[Sequence[Word]]] = {}
    for (row, _), cell in cells.items():
        if len(cell) >= _LINES_OF_PROSE * _WORDS_OF_PROSE:
            rows.setdefault(row, []).append(cell)
    for long in rows.values():
        columns = [find_rows(find_pieces(cell)) for cell in long]
        if len(long) > 1 and sum(map(len, long)) >= _MOST_OF_PAGE * words:
            return all(len(column) >= _LINES_OF_PROSE and _goes_on(column) for column in columns)
    return False


def _order_cells(rows: list[list[str]]) -> list[list[str]]:
    """Cells in the direction in which most of the table is read."""
    return [row[::-1] for row in rows] if is_right_to_left(" ".join(chain.from_iterable(rows))) else rows


def _read_row(cells: Sequence[Sequence[Word]]) -> list[list[str]]:
    """The text of each cell; several rows if no rule parts them but every line has a text in most columns."""
    lines = [find_rows(find_pieces(cell)) for cell in cells]
    heights = [len(cell) for cell in lines if cell]
    if len(heights) > 1 and min(heights) >= 3 and len(set(heights)) == 1:
        levels = [[round(row[0].y) for row in cell] for cell in lines if cell]
        if all(abs(a - b) <= 1 for other in levels for a, b in zip(levels[0], other, strict=True)):
            return [[join_row(cell[index]).text if cell else "" for cell in lines] for index in range(heights[0])]
    return [[_flatten(join_row(row).text for row in cell) for cell in lines]]


def _flatten(texts: Iterable[str]) -> str:
    return " ".join(join_lines(list(texts)).split())


def _find_bands(rules: Sequence[Box]) -> list[tuple[Box, float]]:
    """Areas between three or more rules of the same width, and where the second rule is."""
    if not 3 <= len(rules) <= _MOST_RULES:
        return []
    groups: dict[tuple[int, int], list[float]] = {}
    for rule in rules:
        if rule.x1 - rule.x0 > 60:
            groups.setdefault((round(rule.x0 / 3), round(rule.x1 / 3)), []).append(rule.y0)
    bands = []
    for (x0, x1), ys in groups.items():
        levels = _cluster(ys)[::-1]
        if len(levels) >= 3 and levels[0] - levels[1] < 80:
            bands.append((Box(3 * x0 - 2, levels[-1], 3 * x1 + 2, levels[0]), levels[1]))
    return bands


def _can_start(row: Sequence[Piece]) -> bool:
    if len(row) < 2 or row[0].fixed or row[0].words[0].tag:
        return False
    return not (len(row) == 2 and _is_marker(row[0])) and not any(has_leader(piece.text) for piece in row)


def _is_marker(piece: Piece) -> bool:
    return len(piece.words) == 1 and _MARKER.fullmatch(piece.words[0].text) is not None


def _grow(rows: Sequence[list[Piece]], start: int) -> int:
    columns = [(piece.x0, piece.x1) for piece in rows[start]]
    end = start + 1
    while end < len(rows):
        row, above = rows[end], rows[end - 1]
        gap = above[0].y - row[0].y
        if row[0].words[0].tag or gap > _LINE_GAP * row[0].size or any(has_leader(piece.text) for piece in row):
            break
        merged = _merge(columns + [(piece.x0, piece.x1) for piece in row])
        if len(merged) < 2 or (len(merged) < len(columns) and (end - start >= 3 or len(row) == 1)):
            break
        if len(row) == 1 and row[0].bold and not all(piece.bold for piece in rows[start]):
            break
        if len(row) == 1 and (gap > _TIGHT * 1.3 * row[0].size or len(merged) > len(columns)):
            break
        if len(row) == 1 and abs(row[0].x0 - columns[0][0]) < 2 and row[0].x1 > columns[0][1] + 2:
            break
        columns = merged
        end += 1
    while end > start and len(rows[end - 1]) == 1 and rows[end - 1][0].x0 < columns[0][1]:
        end -= 1
    return end


def _merge(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for x0, x1 in sorted(intervals):
        if merged and x0 < merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], x1))
        else:
            merged.append((x0, x1))
    return merged


def _is_wrapped(piece: Piece, columns: Sequence[tuple[float, float]]) -> bool:
    """Whether a piece is within a column other than the first, as a further line of a cell is."""
    return any(x0 - 1 <= piece.x0 and piece.x1 <= x1 + _NEAR for x0, x1 in columns[1:])


def _align(rows: Sequence[list[Piece]], least: int, header_rule: float | None) -> Table | None:
    """A table of rows whose pieces form columns; None if they do not look like cells."""
    several = [row for row in rows if len(row) > 1]
    columns = _merge((piece.x0, piece.x1) for row in (several if header_rule else rows) for piece in row)
    single = [row[0] for row in rows if len(row) == 1]
    # Between rules, the lines of a long cell stand alone.
    wrapped = header_rule is not None and all(_is_wrapped(piece, columns) for piece in single)
    if len(several) < least or (len(single) > len(several) and not wrapped):
        return None
    if len(columns) < 2 or all(_is_marker(row[0]) for row in several):
        return None
    pieces = [piece for row in several for piece in row]
    if sum(len(piece.words) for piece in pieces) > _MOST_WORDS * len(pieces):
        return None
    if sum(piece.fixed for piece in pieces) > 0.5 * len(pieces):
        return None
    starts = [x0 for x0, _ in columns]
    cells: list[list[list[str]]] = []
    below = False
    for place, row in enumerate(rows):
        found: list[list[str]] = [[] for _ in columns]
        for piece in row:
            found[max(0, bisect_right(starts, piece.x0 + 1) - 1)].append(piece.text)
        filled = sum(map(bool, found))
        gap = rows[place - 1][0].y - row[0].y if place else 0.0
        follows = bool(cells) and not found[0] and filled <= len(columns) / 2 and gap <= 1.6 * row[0].size
        if header_rule is not None:
            was_below, below = below, row[0].y < header_rule
            follows = (follows and was_below == below) or (bool(cells) and not below)
        if follows:
            for cell, more in zip(cells[-1], found, strict=True):
                cell.extend(more)
        else:
            cells.append(found)
    texts = [[_flatten(cell) for cell in row] for row in cells]
    filled = sum(1 for row in texts for cell in row if remove_marks(cell))
    # Parts of a formula leave most places empty.
    if len(texts) < 2 or filled < max(4, 0 if header_rule else _FILLED * len(texts) * len(columns)):
        return None
    titled = all(piece.bold for piece in rows[0])
    first = rows[0][0]
    return Table(
        _order_cells(texts), columns[0][0], columns[-1][1], first.y + first.size, first.size, tuple(starts), titled
    )
