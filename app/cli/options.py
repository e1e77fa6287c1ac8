"""Options that several commands share, and the texts below their help."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def complete_tenant(incomplete: str) -> list[str]:
    """The slugs that begin so, for the shell's completion; none where the database is not running."""
    from app.cli.completion import find_slugs

    return find_slugs(incomplete)


TenantOption = Annotated[
    str,
    typer.Option(
        "--tenant",
        "-t",
        metavar="SLUG",
        help="The tenant to work in.",
        show_default=False,
        autocompletion=complete_tenant,
    ),
]


def command_group(summary: str, *lines: str) -> typer.Typer:
    """Several commands under one name; `lines` are examples."""
    return typer.Typer(help=summary, epilog=examples(*lines), no_args_is_help=True, rich_markup_mode=None)


def json_option(shape: str) -> Any:
    """The option `--json` of a command that prints JSON of this shape."""
    return typer.Option("--json", help=f"Print JSON: {shape}.")


def examples(*lines: str) -> str:
    """An epilog whose lines are kept as they are."""
    return paragraph("Examples:", *lines)


def paragraph(heading: str, *lines: str) -> str:
    """A heading and lines, in a help text that keeps their breaks."""
    return f"\b\n{heading}\n" + "\n".join(f"  {line}" for line in lines)
