"""The `knowledge` command: its list of subcommands, and how their failures are told."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from app.cli import (
    bench,
    eval,
    export,
    import_,
    ingest,
    mcp,
    migrate,
    model,
    reembed,
    related,
    search,
    serve,
    settings,
    tenant,
    token,
    worker,
)
from app.cli.doctor import command as doctor
from app.cli.options import examples, paragraph
from app.cli.output.failures import DONE, report_failure

EPILOG = "\n\n".join(
    (
        examples(
            "knowledge serve --demo",
            "knowledge ingest handbook/ --tenant demo",
            'knowledge search "how do we roll back a deploy" --tenant demo',
            "knowledge doctor",
        ),
        paragraph(
            "Exit statuses:",
            "0    done",
            "1    it failed, or part of it was refused; of doctor: something is wrong",
            "2    wrong usage",
            "130  ended by Ctrl-C or SIGTERM before it was done",
        ),
        paragraph(
            "With --json:",
            "The result is one JSON document on stdout, of the shape that the command's help names. A failure is",
            'one JSON object, the last line on stderr: {"error": "why", "status": 1}, for input out of its range',
            'also "errors": [{"field": "limit", "message": "must be between 1 and 100"}].',
        ),
        paragraph(
            "Environment:",
            "NO_COLOR leaves colours out, FORCE_COLOR forces them, LOG_LEVEL=debug shows where a failure came from.",
            "The service's settings come from the environment and from .env in the current folder.",
        ),
    )
)

app = typer.Typer(
    help="Search a team's knowledge by meaning and by words: serve it, fill it, ask it.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=True,
    # Plain help starts in a third of the time, and keeps the examples' line breaks.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"knowledge {version('knowledge-search')}")
        raise typer.Exit


@app.callback()
def accept_general_options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """What may stand before every command; typer shows the application's own help in place of this."""


for module in (
    serve,
    worker,
    migrate,
    token,
    tenant,
    settings,
    ingest,
    search,
    related,
    import_,
    export,
    model,
    reembed,
    mcp,
    doctor,
    eval,
    bench,
):
    module.register(app)


@functools.cache
def command() -> Any:
    """The whole command line, built once: that takes longer than to run some of its commands."""
    return get_command(app)


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit status. A failure is one line on stderr, a JSON object with --json."""
    try:
        return int(command()(args=list(arguments), prog_name="knowledge", standalone_mode=False) or DONE)
    except BaseException as error:
        return report_failure(error, as_json=_wants_json(arguments))


def run() -> None:
    """Entry point of the console script."""
    sys.exit(main(sys.argv[1:]))


def _wants_json(arguments: Sequence[str]) -> bool:
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options
