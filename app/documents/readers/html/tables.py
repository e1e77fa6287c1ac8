"""The cells of an HTML table, row by row, as a grid: a cell over several rows stands in each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

# Cells that continue in the rows below; a page of hostile spans would multiply its text.
_MAX_OPEN = 50
_MAX_SPAN = 100
_CELLS = frozenset({"td", "th"})


def read_rows(table: Any, read_cell: Callable[[Any], str]) -> tuple[list[list[str]], int | None]:
    """The rows, and the number of header rows; None if the table marks none."""
    rows: list[list[str]] = []
    headers = 0
    marked = False
    below: dict[int, tuple[int, str]] = {}  # by column: the rows that a cell still covers, and its text
    for row in table.iter("tr"):
        elements = [cell for cell in row if cell.tag in _CELLS]
        cells, below = _place(elements, below, read_cell)
        heads = bool(elements) and all(cell.tag == "th" for cell in elements)
        within = row.getparent() is not None and row.getparent().tag == "thead"
        if (heads or within) and headers == len(rows) and any(cells):
            headers += 1
            marked = True
        if any(cells):
            rows.append(cells)
    if headers and headers == len(rows):
        headers = 1
    return rows, headers if marked else None


def _place(
    elements: Sequence[Any], below: dict[int, tuple[int, str]], read_cell: Callable[[Any], str]
) -> tuple[list[str], dict[int, tuple[int, str]]]:
    """The cells of a row between those that continue from above, and those that continue below."""
    cells: list[str] = []
    following: dict[int, tuple[int, str]] = {}

    def fill() -> None:
        while len(cells) in below:
            rows, text = below[len(cells)]
            if rows > 1:
                following[len(cells)] = (rows - 1, text)
            cells.append(text)

    for element in elements:
        fill()
        text = read_cell(element)
        rows = _span(element, "rowspan")
        if rows > 1 and len(following) < _MAX_OPEN:
            following[len(cells)] = (rows - 1, text)
        cells.append(text)
        cells.extend([text if element.tag == "th" else ""] * (_span(element, "colspan") - 1))
    fill()
    return cells, following


def _span(element: Any, name: str) -> int:
    value = element.get(name, "1").strip()
    return max(1, min(int(value), _MAX_SPAN)) if value.isdecimal() and len(value) < 6 else 1
