"""The `knowledge` command: its subcommands and the report of their failures."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
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
from app.cli.execution import named_env_file
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
            "1    failed, or part of the input was refused; doctor: something is wrong",
            "2    wrong usage",
            "130  interrupted by Ctrl-C or SIGTERM before it was done",
        ),
        paragraph(
            "With --json:",
            "The result is one JSON document on stdout, in the form that the command's help describes. A failure is",
            'one JSON object, the last line on stderr: {"error": "reason", "status": 1}; for invalid input',
            'it also has "errors": [{"field": "limit", "message": "must be between 1 and 100"}].',
        ),
        paragraph(
            "Environment:",
            "NO_COLOR disables colours, FORCE_COLOR enables them, LOG_LEVEL=debug shows where a failure occurred.",
            "The service's settings come from the environment. serve, worker and migrate also read .env in the",
            "current folder; other commands read a file only with --env-file (knowledge --env-file .env search …).",
        ),
    )
)

app = typer.Typer(
    help="Semantic and keyword search over a team's knowledge: serve, ingest, search.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=True,
    # Plain help starts three times as fast, and keeps the line breaks of the examples.
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
    env_file: Annotated[
        Path | None,
        typer.Option(
            "--env-file",
            envvar="KB_ENV_FILE",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Read settings from this file; the environment takes precedence.",
            show_envvar=True,
        ),
    ] = None,
) -> None:
    """Options before every command; typer shows the application's help instead of this text."""
    named_env_file.set(env_file)


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
    """Build the whole command line once: that takes longer than some commands."""
    return get_command(app)


def main(arguments: Sequence[str]) -> int:
    """Run one command and return the exit status. A failure is one line on stderr, or a JSON object with --json."""
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
