"""Print results to stdout, also as tables, and remarks to stderr, with control characters made visible.

Colours and drawing follow NO_COLOR, FORCE_COLOR and TERM=dumb, and are off if the stream is not a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from knowledge_client.models import ItemReaders, SubjectAccess

MOST_REASONS = 10

# Stored text may contain sequences that move the cursor or change the window title: show control characters as symbols.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_PICTURES |= {0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}
# It must not change the direction of the following text on the line either.
_TURNING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_PICTURES |= dict.fromkeys(_TURNING, 0xFFFD)
# The same characters, if JSON does not escape them: they only occur in strings, where an escape is equivalent.
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_TURNING)}


def print_json(value: Any) -> None:
    """Print one JSON document, given as values or written already; on a terminal indented, and without terminal
    sequences.
    """
    import orjson

    if isinstance(value, bytes):
        value = orjson.loads(value)
    if sys.stdout.isatty():
        typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().translate(_ESCAPES))
    else:
        typer.echo(orjson.dumps(value).decode())


def remark(text: str) -> None:
    """Print a line for the user, not part of the output."""
    typer.echo(make_printable(text), err=True)


def make_printable(text: str) -> str:
    """Make control characters visible, so that stored text cannot control the terminal."""
    return text.translate(_PICTURES)


def flatten(text: str, length: int | None = None) -> str:
    """Format the text as one printable line, cut with `…` at `length`."""
    line = make_printable(" ".join(text.split()))
    return line if length is None or len(line) <= length else line[: length - 1] + "…"


def make_console(*, stderr: bool = False) -> Console:
    """A console without automatic markup, and without line breaks if the stream is not a terminal."""
    from rich.console import Console

    console = Console(highlight=False, stderr=stderr)
    if not console.is_terminal:
        console.soft_wrap = True
    return console


def make_text(*parts: tuple[str, str]) -> Text:
    """Text with a style for each part; never markup, because stored text may look like markup."""
    from rich.text import Text

    return Text.assemble(*((make_printable(text), style) for text, style in parts))


def name_some(names: Sequence[object], most: int) -> str:
    """The first of these, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def list_reasons(label: str, reasons: Sequence[tuple[str, str]]) -> None:
    """Print the first of these paths, each with its reason, and the number of the others."""
    for path, reason in reasons[:MOST_REASONS]:
        remark(f"{label}: {flatten(path)}: {flatten(reason)}")
    if len(reasons) > MOST_REASONS:
        remark(f"{label}: and {len(reasons) - MOST_REASONS} more")


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
