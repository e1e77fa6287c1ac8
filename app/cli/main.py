"""The `knowledge` command: its list of subcommands, and how their failures are told."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from app.cli import (
    diagnosis,
    evaluation,
    files,
    mcp,
    models,
    reembedding,
    schema,
    searching,
    service,
    tenant_settings,
    tenants,
    tokens,
    transfer,
)
from app.cli.execution import Interrupted
from app.cli.options import examples, paragraph
from app.errors import InvalidInput, KnowledgeError

log = logging.getLogger("app.cli")

DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130

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
    service,
    schema,
    tokens,
    tenants,
    tenant_settings,
    files,
    searching,
    transfer,
    models,
    reembedding,
    mcp,
    diagnosis,
    evaluation,
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
        status, reason = _judge(error)
        if reason:
            _tell(error, reason, status, as_json=_wants_json(arguments))
        return status


def run() -> None:
    """Entry point of the console script."""
    sys.exit(main(sys.argv[1:]))


def _judge(error: BaseException) -> tuple[int, str]:
    """The exit status and the reason that is told, empty for none. Raises what is no failure of the command."""
    if isinstance(error, Interrupted | KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    if not isinstance(error, Exception):
        raise error
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(str(error))
        return DONE, ""
    # typer's own usage errors have no public class that holds them all.
    if hasattr(error, "format_message"):
        return MISUSED, _describe_misuse(error)
    log.debug("the command failed", exc_info=error)
    if isinstance(error, KnowledgeError):
        return FAILED, str(error)
    if isinstance(error, typer.Abort):
        return FAILED, "given up: nothing was changed"
    if isinstance(error, OSError):
        reason = error.strerror or "input or output failed"
        return FAILED, f"{error.filename}: {reason}" if error.filename else reason
    hint = "" if log.isEnabledFor(logging.DEBUG) else "; LOG_LEVEL=debug shows where"
    return FAILED, f"unexpected failure ({type(error).__name__}){hint}"


def _describe_misuse(error: Any) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "knowledge"
    # What typer says of a choice begins twice.
    return f"{error.format_message().replace('Value error, ', '').rstrip('.')}; see: {command} --help"


def _tell(error: BaseException, reason: str, status: int, *, as_json: bool) -> None:
    line = " ".join(reason.split())
    if not as_json:
        typer.echo(f"error: {line}", err=True)
        return
    import orjson

    told: dict[str, Any] = {"error": line, "status": status}
    if isinstance(error, InvalidInput):
        told["errors"] = [{"field": e.field, "message": e.message} for e in error.errors]
    typer.echo(orjson.dumps(told).decode(), err=True)


def _wants_json(arguments: Sequence[str]) -> bool:
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options
