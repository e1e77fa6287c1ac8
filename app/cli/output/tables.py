"""Tables: styled on a terminal, plain and aligned elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import typer

from app.cli.output.text import flatten, make_console, make_text

GAP = "  "


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()
) -> None:
    """Print rows under headings; columns named in `right` are right-aligned, and piped output is never cut."""
    lines = [[flatten(str(cell)) for cell in row] for row in rows]
    numeric = {headings.index(name) for name in right}
    console = make_console()
    if not console.is_terminal:
        for line in align([[name.upper() for name in headings], *lines], numeric):
            typer.echo(line)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="bold dim")
    for number, name in enumerate(headings):
        table.add_column(
            name.upper(),
            justify="right" if number in numeric else "left",
            style="bold" if number == 0 else None,
            overflow="fold",
        )
    for cells in lines:
        table.add_row(*(make_text((cell, "")) for cell in cells))
    console.print(table)


def align(lines: Sequence[Sequence[str]], numeric: Iterable[int] = ()) -> list[str]:
    """Align columns, counting wide characters as two; `numeric` columns are right-aligned."""
    from rich.cells import cell_len

    flush_right = set(numeric)
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]

    def pad(number: int, cell: str) -> str:
        space = " " * (widths[number] - cell_len(cell))
        return space + cell if number in flush_right else cell + space

    return [GAP.join(pad(n, cell) for n, cell in enumerate(line)).rstrip() for line in lines]
