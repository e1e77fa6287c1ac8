"""The page about the command line, from the help of every command."""

from collections.abc import Iterator

from typer.testing import CliRunner

from app.cli.main import app, command

INTRODUCTION = """\
# Command line

The output of `--help` for every command. Settings come from the environment and, for `serve`, `worker` and `migrate`,
from `.env` in the current folder; for other commands, name the file before the command, as in
`knowledge --env-file .env search …`. See [Settings](settings.md).
"""
WIDTH = "100"


def render_commands() -> str:
    """The whole page."""
    sections = [f"## `knowledge {name}`\n\n```text\n{_help(name)}\n```\n" for name in command_names()]
    return "\n".join([INTRODUCTION, f"```text\n{_help('')}\n```\n", *sections])


def command_names() -> list[str]:
    """List every command; the commands of a group include the name of the group."""
    return list(_walk(command()))


def _walk(group: object, prefix: str = "") -> Iterator[str]:
    for name, inner in getattr(group, "commands", {}).items():
        if getattr(inner, "commands", None):
            yield from _walk(inner, f"{prefix}{name} ")
        elif not inner.hidden:
            yield f"{prefix}{name}"


def _help(name: str) -> str:
    environment = {"COLUMNS": WIDTH, "TERMINAL_WIDTH": WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
    result = CliRunner(env=environment).invoke(app, [*name.split(), "--help"], prog_name="knowledge")
    if result.exit_code != 0:
        raise RuntimeError(f"knowledge {name} --help ended with {result.exit_code}")
    return "\n".join(line.rstrip() for line in result.output.strip().splitlines())
