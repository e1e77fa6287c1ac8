"""Tables of records, written as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from app.documents.readers.builder import TextBuilder, add_marked

# Numbers, with their signs and units in tables, and dates.
_NUMBER = re.compile(r"[-+(]?[$€£¥]?\s?\d[\d.,'\u00a0\u202f ]*(?:e[-+]?\d+)?\s?[%$€£¥)]?", re.I)
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?:[ T]\d{1,2}:\d{2}.*)?")
_YEAR = re.compile(r"(?:19|20)\d\d")
# A row of this length gets a line for each value, so that it is cut between values.
_LONG_ROW = 600
# Rows are added in blocks: adding a block costs more than rendering a row.
_BLOCK = 200
_TITLE_ROWS = 10


def write_table(builder: TextBuilder, rows: Iterable[Sequence[str]]) -> None:
    """Write each row as `header: value | header: value`, or `value | value` when the table has no headers.

    The headers are the first row with several values, if it looks like a header row. Rows with a single value
    above it are the table's title and notes.
    """
    remaining = iter(rows)
    lines: list[str] = []
    headers: Sequence[str] = ()
    above: list[Sequence[str]] = []
    for row in remaining:
        above.append(row)
        if sum(map(_is_filled, row)) > 1 or len(above) > _TITLE_ROWS:
            break
    if above and are_headers(above[-1]):
        headers = [_flatten(cell) for cell in above.pop()]
        following = next(remaining, None)
        if following is None:
            above, headers = [*above, headers], ()
        else:
            remaining = chain([following], remaining)
    lines = [text for row in above if (text := _render(row, ()))]
    for row in remaining:
        if text := _render(row, headers):
            lines.append(text)
            if len(lines) >= _BLOCK:
                builder.add("\n".join(lines), gap="\n")
                lines.clear()
    builder.add("\n".join(lines), gap="\n")


def are_headers(row: Sequence[str]) -> bool:
    """Whether a row names columns: distinct words, no dates, and no numbers except years."""
    filled = [cell.strip() for cell in row if _is_filled(cell)]
    words = [cell for cell in filled if not _YEAR.fullmatch(cell)]
    if not words or len(set(filled)) < len(filled):
        return False
    return not any(len(cell) > 200 or _NUMBER.fullmatch(cell) or _DATE.fullmatch(cell) for cell in words)


def _render(row: Sequence[str], headers: Sequence[str]) -> str:
    values = []
    for index, cell in enumerate(row):
        if value := _flatten(cell):
            header = headers[index] if index < len(headers) else ""
            values.append(f"{header}: {value}" if header else value)
    if sum(map(len, values)) > _LONG_ROW:
        return "\n" + "\n".join(values) + "\n"
    return " | ".join(values)


def _is_filled(cell: str) -> bool:
    return bool(cell) and not cell.isspace()


def _flatten(cell: str) -> str:
    return " ".join(cell.split())


# Rows are added in blocks: adding a block costs more than writing a row.
_BLOCK_ROWS = 200


def write_markdown_table(
    builder: TextBuilder, rows: Sequence[Sequence[str]], headers: int | None = None, gap: str = "\n\n"
) -> int | None:
    """Write rows of cells, of which the first `headers` name the columns; returns where the table begins.

    Several header rows become one. With None, the first row is the header if it looks like one. A table with one
    column becomes lines, and one without text is not written.
    """
    filled = [row for row in rows if any(cell and not cell.isspace() for cell in row)]
    width = max((len(row) for row in filled), default=0)
    if width < 2:
        return add_marked(builder, "\n".join(cell for row in filled for cell in row), gap)
    if headers is None:
        headers = int(len(filled) > 1 and are_headers(filled[0]))
    start = None
    if headers > 0:
        header = _join_headers(filled[:headers], width)
        start = add_marked(builder, f"{_render_cells(header, width)}\n{'| --- ' * width}|", gap)
    body = builder.length + 1 if start is not None else None
    for first in range(headers, len(filled), _BLOCK_ROWS):
        lines = "\n".join(_render_cells(row, width) for row in filled[first : first + _BLOCK_ROWS])
        place = add_marked(builder, lines, gap if start is None else "\n")
        if start is None:
            start = body = place
    if start is not None and body is not None:
        builder.mark_table(start, min(body, builder.length), builder.length)
    return start


def _join_headers(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """One header row: the names above each column, each once."""
    columns = ([row[column] if column < len(row) else "" for row in rows] for column in range(width))
    return [" ".join(dict.fromkeys(name for name in names if name)) for names in columns]


def _render_cells(row: Sequence[str], width: int) -> str:
    cells = [cell.replace("|", "\\|") for cell in row] + [""] * (width - len(row))
    return f"| {' | '.join(cells)} |"
