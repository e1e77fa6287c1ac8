"""The help texts of the commands, and that they are true."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from app.cli.main import COMMANDS, command
from tests.cli.conftest import SECRET, CommandLine


def commands() -> Iterator[tuple[str, ...]]:
    """The path of every command, also of a group that does something by itself."""
    for name, found in command().commands.items():
        if runs(found):
            yield (name,)
        yield from ((name, part) for part in getattr(found, "commands", {}))


def groups() -> Iterator[tuple[str, ...]]:
    """The path of every group that only has commands."""
    yield ()
    yield from ((name,) for name, found in command().commands.items() if not runs(found))


def runs(found: Any) -> bool:
    """Whether a command or group can be called without a further word."""
    return not hasattr(found, "commands") or found.invoke_without_command


def find_command(arguments: list[str]) -> tuple[Any, list[str]]:
    """The command that the words name, and its own words."""
    found, rest = command(), list(arguments)
    while rest and rest[0] in getattr(found, "commands", {}):
        found = found.commands[rest.pop(0)]
    return found, rest


def examples_of(text: str) -> list[str]:
    """The lines below `Examples:` in a help text."""
    _, _, shown = text.partition("Examples:\n")
    return [line.strip() for line in shown.split("\n\n")[0].splitlines() if line.strip()]


def calls(line: str) -> Iterator[list[str]]:
    """The arguments of each `knowledge` in a shell command line."""
    for part in re.split(r"&&|\||>|\$\(|\)", line):
        words = shlex.split(part)
        if "knowledge" in words:
            yield words[words.index("knowledge") + 1 :]


def test_command_is_in_its_module() -> None:
    for name, found in command().commands.items():
        inner = [found, *getattr(found, "commands", {}).values()]
        modules = {part.callback.__module__ for part in inner if part.callback is not None}
        assert modules == {f"app.cli.{COMMANDS[name][0]}"}


@pytest.mark.parametrize("path", [*commands(), *groups()], ids=" ".join)
def test_examples_in_help_texts_can_be_run(offline: CommandLine, path: tuple[str, ...]) -> None:
    lines = examples_of(offline.succeed(*path, "--help").out)
    assert any(f"knowledge {' '.join(path)}".strip() in line for line in lines)
    for line in lines:
        called = list(calls(line))
        assert called, line
        for arguments in called:
            found, rest = find_command(arguments)
            assert runs(found), line
            # Parses options and arguments as a call would, but runs nothing.
            found.make_context(found.name, rest)


def test_the_help_describes_every_command_and_is_what_no_command_prints(offline: CommandLine) -> None:
    text = offline.succeed("--help").out
    listed, _, _ = text.partition("Examples:")
    assert "..." not in listed.replace("COMMAND [ARGS]...", "")
    assert offline().out == text


HEAVY = {
    *("alembic", "asyncpg", "cryptography.x509", "fastapi", "google", "httpx", "numpy", "onnxruntime", "openai"),
    *("pandas", "rich", "sqlalchemy", "tokenizers", "uvicorn"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--help"], {}),
        (["--version"], {}),
        (["token", "--help"], {}),
        (["search", "--help"], {}),
        (["token", "--role", "platform_admin"], {"JWT_SECRET": SECRET}),
        ([], {"_KNOWLEDGE_COMPLETE": "complete_bash", "COMP_WORDS": "knowledge sear", "COMP_CWORD": "1"}),
    ],
    ids=["help", "version", "help of token", "help of search", "token", "completion"],
)
def test_quick_commands_load_no_heavy_library(
    offline: CommandLine, arguments: list[str], environment: dict[str, str]
) -> None:
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print(sorted({HEAVY} & sys.modules.keys()), file=sys.stderr))\n"
        "from app.cli.main import run; run()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    assert done.stdout
    assert done.stderr.strip() == "[]"


def test_a_command_loads_only_its_own_module(offline: CommandLine) -> None:
    code = (
        "import sys; from app.cli.main import main; main(['token', '--help'])\n"
        "names = {name.split('.')[2] for name in sys.modules if name.startswith('app.cli.')}\n"
        "print(sorted(names & set('serve worker ingest search tenant doctor eval'.split())), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.slow
def test_a_command_with_a_current_schema_does_not_load_alembic(knowledge: CommandLine) -> None:
    code = (
        "import sys; from app.cli.main import main; status = main(['tenant', 'list'])\n"
        "print(sorted({'alembic', 'onnxruntime'} & sys.modules.keys()), file=sys.stderr); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
