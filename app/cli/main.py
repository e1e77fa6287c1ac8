"""The `knowledge` command: its list of subcommands, and how their failures are told."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import typer

from app.cli import (
    diagnosis,
    files,
    mcp,
    models,
    reembedding,
    schema,
    searching,
    service,
    tenants,
    tokens,
    transfer,
)
from app.cli.execution import Interrupted
from app.errors import KnowledgeError

log = logging.getLogger("app.cli")

app = typer.Typer(
    help="Search a team's knowledge by meaning and by words: serve it, fill it, ask it.",
    epilog="Each command explains itself: knowledge search --help",
    no_args_is_help=True,
    add_completion=False,
    # Plain help starts in a third of the time, and keeps the examples' line breaks.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for module in (
    service,
    schema,
    tokens,
    tenants,
    files,
    searching,
    transfer,
    models,
    reembedding,
    mcp,
    diagnosis,
):
    module.register(app)


def _delegate(name: str, summary: str) -> None:
    """Add a command of `app.cli.evaluation`, whose imports are too heavy to load for the others."""

    @app.command(
        name,
        help=summary,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    def run_evaluation(context: typer.Context) -> int:
        from app.cli import evaluation

        inner = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        evaluation.register(inner)
        return int(inner(args=[name, *context.args], prog_name="knowledge", standalone_mode=False) or 0)


_delegate("eval", "Measure ranking quality on judged collections.")
_delegate("bench", "Measure how fast the service searches.")


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit status. A failure is one line on stderr."""
    try:
        return int(app(args=list(arguments), prog_name="knowledge", standalone_mode=False) or 0)
    except typer.BadParameter as error:
        return _refuse_usage(error)
    except KnowledgeError as error:
        log.debug("the command failed", exc_info=error)
        return _fail(str(error))
    except typer.Abort:
        return _fail("given up: nothing was changed")
    except (Interrupted, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except OSError as error:
        log.debug("the command failed", exc_info=error)
        return _fail(
            f"{error.filename}: {error.strerror}"
            if error.filename
            else f"{error.strerror or 'input or output failed'}"
        )
    except Exception as error:
        if hasattr(error, "format_message"):
            return _refuse_usage(error)
        log.debug("the command failed in an unexpected way", exc_info=error)
        hint = "" if log.isEnabledFor(logging.DEBUG) else "; LOG_LEVEL=debug shows where"
        return _fail(f"unexpected failure ({type(error).__name__}){hint}")


def run() -> None:
    """Entry point of the console script."""
    sys.exit(main(sys.argv[1:]))


def _refuse_usage(error: Exception) -> int:
    # typer's own usage errors have no public class that holds them all.
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(str(error))
        return 0
    command = context.command_path if context is not None else "knowledge"
    message = str(error.format_message()).rstrip(".") if hasattr(error, "format_message") else str(error)
    return _fail(f"{message}; see: {command} --help", 2)


def _fail(reason: str, status: int = 1) -> int:
    typer.echo("error: " + " ".join(reason.split()), err=True)
    return status
