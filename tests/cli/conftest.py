"""One embedded database for all tests of the command line, and the commands run against it."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import main
from app.embedded import EmbeddedPostgres
from app.settings import variable_names
from tests.embedded.observation import FAST

LOGGERS = ("", "app", "uvicorn", "alembic")
PROGRAM = Path(sys.executable).with_name("knowledge")


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended and what it printed."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class CommandLine:
    """Runs `knowledge` in this process, which spares it the imports."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: str) -> Result:
        """Run it, whatever its status."""
        self._capture.readouterr()
        status = main(arguments)
        captured = self._capture.readouterr()
        return Result(status, captured.out, captured.err)

    def succeed(self, *arguments: str) -> Result:
        """Run it; the test fails unless it succeeds."""
        result = self(*arguments)
        assert result.status == 0, result.err
        return result


@pytest.fixture(scope="session")
def cli_data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A KB_DATA_DIR whose Postgres runs all the time, so that each command joins it at once."""
    data_dir = tmp_path_factory.mktemp("cli") / "data"
    with EmbeddedPostgres(data_dir, settings=FAST):
        yield data_dir


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting but the mock provider, and a current folder without an `.env`."""
    for name in variable_names():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EMBEDDING_PROVIDER", "mock")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Commands configure logging for the whole process."""
    before = [(log, log.level, list(log.handlers), log.propagate) for log in map(logging.getLogger, LOGGERS)]
    yield
    for log, level, handlers, propagate in before:
        log.setLevel(level)
        log.handlers[:] = handlers
        log.propagate = propagate


@pytest.fixture
def knowledge(
    clean_environment: None,
    restored_logging: None,
    cli_data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> CommandLine:
    """The command, on the shared embedded database."""
    monkeypatch.setenv("KB_DATA_DIR", str(cli_data_dir))
    return CommandLine(capsys)


@pytest.fixture
def tenant(knowledge: CommandLine, request: pytest.FixtureRequest) -> str:
    """The slug of a new tenant."""
    slug = re.sub(r"[^a-z0-9]+", "-", str(request.node.name).lower())[-60:].strip("-")
    knowledge.succeed("tenant", "create", slug)
    return slug


def start_program(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start the real `knowledge` in the current folder, with this process's environment and more."""
    return subprocess.Popen(
        [str(PROGRAM), *arguments],
        env=os.environ | {"KB_DRAIN_SECONDS": "0"} | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def write_lines(path: Path, lines: Sequence[Any]) -> Path:
    """Write JSON Lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path
