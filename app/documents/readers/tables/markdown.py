"""Writes a table as Markdown rows and records where its header ends."""

from __future__ import annotations

from collections.abc import Sequence

from app.documents.readers.builder import TextBuilder
from app.documents.readers.marks import add_marked
from app.documents.readers.tables.table import are_headers

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
