"""Print tables and permissions: styled on a terminal, plain and aligned elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from app.cli.output.text import flatten, make_console, make_text, remark

if TYPE_CHECKING:
    from app.contract.access import ItemReaders, SubjectAccess

GAP = "  "


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> None:
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


def print_item(found: ItemReaders) -> None:
    """Print who may read and change an item."""
    typer.echo(f"{found.kind} {flatten(found.name, 80)}")
    typer.echo(f"  readers  {_names(found.readers, 'all readers of the tenant')}")
    typer.echo(f"  writers  {_names(found.writers, 'all creators among them')}")
    if found.decided_by != found.kind:
        place = found.source if found.decided_by == "source" else found.asset_id
        typer.echo(f"  decided by its {found.decided_by}, {place}")
    for caller in found.callers:
        groups = f" ({', '.join(map(flatten, caller.groups))})" if caller.groups else ""
        may = "reads and writes" if caller.writes else "reads"
        typer.echo(f"  {flatten(caller.subject)}{groups} {may}, last call {caller.last_at:%Y-%m-%d %H:%M} UTC")


def print_subject(found: SubjectAccess) -> None:
    """Print what a person may read."""
    groups = ", ".join(map(flatten, found.groups)) or "no groups"
    unknown = "; has not called in the last 90 days" if found.groups_from == "none" else ""
    typer.echo(f"{flatten(found.subject)} ({groups}{unknown})")
    typer.echo(f"  entries  {found.readable.entries:,} of {found.total.entries:,}")
    typer.echo(f"  assets   {found.readable.assets:,} of {found.total.assets:,}")
    if found.items:
        typer.echo("  of these, not all readers may read:")
    for item in found.items:
        typer.echo(f"    {item.kind} {item.id} {flatten(item.name, 60)}: {_names(item.readers, '')}")
    if found.next_cursor is not None:
        remark("there are more: a larger --limit, or --json")


def _names(principals: Sequence[str] | None, unlisted: str) -> str:
    return unlisted if principals is None else ", ".join(map(flatten, principals))
