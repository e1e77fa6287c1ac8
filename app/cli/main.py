"""The `knowledge` command: its subcommands and the report of their failures."""

import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import copy_context
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from app.cli.execution import Commands, examples, named_env_file, paragraph, program
from app.cli.output.failures import DONE, report_failure

COMMANDS: Mapping[str, tuple[str, str]] = {
    "serve": ("serve.command", "Serve the HTTP API until Ctrl-C or SIGTERM."),
    "worker": ("serve.command", "Run queued jobs until Ctrl-C or SIGTERM."),
    "migrate": ("migrate", "Migrate the database to this version's schema."),
    "token": ("token", "Print a bearer token, and nothing else; or revoke one."),
    "key": ("key", "Create, list and revoke API keys."),
    "tenant": ("tenant", "Create, list, limit, move and delete tenants."),
    "nodes": ("tenant", "List the nodes of a Citus cluster, with their load and size."),
    "usage": ("usage", "Show what a tenant used by day."),
    "settings": ("settings", "Show and change a tenant's settings."),
    "ingest": ("ingest", "Ingest files and wait until they are searchable."),
    "sync": ("sync", "Keep the files of a folder, a repository or a store equal here."),
    "search": ("search", "Search a tenant's knowledge, best hits first."),
    "why-not": ("search", "Explain why a search does not find an entry."),
    "related": ("search", "Show the entries related to an entry."),
    "add": ("entries", "Store an entry."),
    "get": ("entries", "Show an entry, or an uploaded file."),
    "list": ("entries", "List entries, or uploaded files."),
    "edit": ("entries", "Change fields of an entry."),
    "delete": ("entries", "Delete entries, or uploaded files."),
    "access": ("access", "Show and change who may read and change entries and assets."),
    "import": ("transfer", "Import an export, or entries from a file, into a tenant."),
    "export": ("transfer", "Export a tenant as JSON Lines."),
    "model": ("model", "Register and list embedding models."),
    "reembed": ("model", "Move a tenant to another embedding model."),
    "erase": ("erase", "Erase an asset, an entry or everything of a subject."),
    "subscription": ("subscription", "List webhook subscriptions."),
    "quarantine": ("quarantine", "List and release entries with suspicious content."),
    "mcp": ("mcp", "Offer a tenant's knowledge as MCP tools over stdio."),
    "doctor": ("doctor.command", "Diagnose problems and show how to fix them."),
    "eval": ("eval", "Measure ranking quality on judged collections."),
    "bench": ("eval", "Measure the speed of searches."),
}
"""The module of each command and its line in the list of commands, in the order of that list."""

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
            "KB_TENANT is the tenant of commands that name none. With KB_URL and KB_TOKEN, commands go to that service",
            "instead of the database of this installation; with KB_ACCESS=all, an admin sees all of its tenant.",
            "The service's settings come from the environment. serve, worker and migrate also read .env in the",
            "current folder; other commands read a file only with --env-file (knowledge --env-file .env search …).",
        ),
    )
)


def build(module: ModuleType, name: str) -> Any:
    """The group of the module, if it has this name, or else the command with this name."""
    group: Commands | None = getattr(module, "group", None)
    if group is not None and group.info.name == name:
        return get_group(group)
    single = typer.Typer(rich_markup_mode=None)
    single.registered_commands = [each for each in program.registered_commands if each.name == name]
    return get_group(single).commands[name]


class CommandsByName(Mapping[str, Any]):
    """The commands; the module of each is loaded when the command is first looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = build(import_module(f"app.cli.{COMMANDS[name][0]}"), name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class Program(TyperGroup):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = CommandsByName()  # type: ignore[assignment]  # commands are only looked up

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


app = typer.Typer(
    cls=Program,
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
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
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


@functools.cache
def command() -> Any:
    """Build the command line once."""
    return get_command(app)


def main(arguments: Sequence[str]) -> int:
    """Run one command and return the exit status. A failure is one line on stderr, or a JSON object with --json."""
    try:
        # In a context of its own: the next command of this process does not read the file that this one names.
        run_alone = copy_context().run
        return int(run_alone(command(), args=list(arguments), prog_name="knowledge", standalone_mode=False) or DONE)
    except BaseException as error:
        return report_failure(error, as_json=_wants_json(arguments))


def run() -> None:
    """Entry point of the console script."""
    sys.exit(main(sys.argv[1:]))


def _wants_json(arguments: Sequence[str]) -> bool:
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options
