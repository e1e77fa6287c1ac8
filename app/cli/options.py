"""Options shared by several commands, and the texts below their help."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer

from app.errors import InvalidInput

named_env_file: ContextVar[Path | None] = ContextVar("named_env_file", default=None)
"""The file that `--env-file` names."""


def complete_tenant(incomplete: str) -> list[str]:
    """Complete slugs in the shell; none if the database is not running."""
    from app.cli.completion import find_slugs

    return find_slugs(incomplete)


def find_tenant() -> str:
    """The tenant of a command that names none; empty without one, or where the token of KB_TOKEN determines it."""
    from app.cli.target import default_tenant

    return default_tenant() or ""


def require_tenant(context: typer.Context, slug: str) -> str:
    """Check that there is a tenant, but not while a shell completes the line. Raises BadParameter."""
    from app.cli.target import default_tenant

    if not slug and not context.resilient_parsing and default_tenant() is None:
        raise typer.BadParameter("is required, unless KB_TENANT or KB_URL is set")
    return slug


TenantOption = Annotated[
    str,
    typer.Option(
        "--tenant",
        "-t",
        metavar="SLUG",
        help="The tenant; default: KB_TENANT. Omit it with KB_URL.",
        show_default=False,
        default_factory=find_tenant,
        callback=require_tenant,
        autocompletion=complete_tenant,
    ),
]


def split_assignment(option: str, text: str) -> tuple[str, str]:
    """The name and the value of `NAME=VALUE`. Raises InvalidInput, which names the option."""
    name, separator, value = (part.strip() for part in text.partition("="))
    if not separator or not name:
        raise InvalidInput.of(option, f"{text!r} does not have the form NAME=VALUE")
    return name, value


def command_group(summary: str, *lines: str) -> typer.Typer:
    """A group of commands; `lines` are examples."""
    return typer.Typer(help=summary, epilog=examples(*lines), no_args_is_help=True, rich_markup_mode=None)


def json_option(shape: str) -> Any:
    """The option `--json` of a command that prints JSON in this form."""
    return typer.Option("--json", help=f"Print JSON: {shape}.")


def examples(*lines: str) -> str:
    """An epilog that keeps its line breaks."""
    return paragraph("Examples:", *lines)


def paragraph(heading: str, *lines: str) -> str:
    """A heading and lines, in a help text that keeps line breaks."""
    return f"\b\n{heading}\n" + "\n".join(f"  {line}" for line in lines)
