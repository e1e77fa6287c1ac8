"""A reader who follows a page from top to bottom and pastes every block."""

import ast
import asyncio
import contextlib
import inspect
import io
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson
import psutil
import yaml

from tests.docs.pages import Block

ADDRESS = "http://127.0.0.1:8000"
"""The address in the pages; in the tests the service listens elsewhere."""

SHELL = "set -euo pipefail\n. {kept}\n{source}\nexport -p > {kept}\n"

SECONDS = 300.0
"""A block has this long; the longest starts a service and loads the sample knowledge."""


@dataclass(slots=True)
class Reader:
    """Keeps what blocks leave for later ones: Python's names, exported variables, files, and the last output.

    `kept` is a file for the exported variables, which is not in the reader's folder.
    """

    folder: Path
    url: str
    environment: Mapping[str, str]
    components: Mapping[str, Any]
    kept: Path
    names: dict[str, Any] = field(default_factory=dict)
    printed: str = ""
    sessions: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.kept.touch()

    def read(self, blocks: Iterable[Block]) -> None:
        """Follow one block after the other."""
        for block in blocks:
            self.follow(block)

    def follow(self, block: Block) -> None:
        """Run or check one block. Raises AssertionError that names its location."""
        if block.marker == "not run":
            return
        if block.marker == "output":
            assert self.printed.strip() == block.source.strip(), f"{block.place}: printed\n{self.printed}"
            return
        try:
            self._follow(block)
        except Exception as error:
            raise AssertionError(f"{block.place}: {type(error).__name__}: {error}") from error

    def _follow(self, block: Block) -> None:
        source = block.source.replace(ADDRESS, self.url)
        if block.language == "sh":
            self._run_shell(source)
        elif block.language == "python":
            self._run_python(source, block)
        elif block.language == "json":
            check_json(block, self.components)
        elif block.language == "yaml":
            yaml.safe_load(source)

    def _run_shell(self, source: str) -> None:
        shell = subprocess.Popen(
            ["bash", "-c", SHELL.format(source=source, kept=self.kept)],
            cwd=self.folder,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.sessions.add(shell.pid)
        output, errors = shell.communicate(timeout=SECONDS)
        assert shell.returncode == 0, f"status {shell.returncode}\n{output}\n{errors}"
        # curl does not report an answer that is a refusal.
        assert '"type":"/problems/' not in output, output
        self.printed = output

    def end(self) -> None:
        """Stop what blocks have left running, in the background or after their time, and wait for it."""
        running = [process for process in psutil.process_iter() if _session_of(process) in self.sessions]
        for process in running:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs(running, timeout=60)
        assert [process for process in left if process.status() != psutil.STATUS_ZOMBIE] == []

    @contextlib.contextmanager
    def _exported(self) -> Iterator[None]:
        """The variables that a Python started in the reader's shell has."""
        printed = subprocess.run(
            ["bash", "-c", f". {self.kept}; env -0"],
            env=dict(self.environment),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        before = dict(os.environ)
        for one in printed.split("\0"):
            name, equals, value = one.partition("=")
            if equals:
                os.environ[name] = value
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def _run_python(self, source: str, block: Block) -> None:
        """Behave as the interactive interpreter of asyncio: `await` is allowed at the top level."""
        code = compile(source, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.chdir(self.folder), self._exported():
            result = eval(code, self.names)  # noqa: S307
            if inspect.iscoroutine(result):
                asyncio.run(result)
        self.printed = output.getvalue()


def _session_of(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return None


def check_json(block: Block, components: Mapping[str, Any]) -> None:
    """Check that the block is JSON and, if it names a schema, valid for it. Raises ValueError."""
    value = orjson.loads(block.source)
    if block.marker == "schema":
        schema = {"$ref": f"#/components/schemas/{block.remark}", "components": components}
        jsonschema_rs.validator_for(schema).validate(value)
