"""A reader who follows a page from top to bottom and pastes every block."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson
import yaml

from tests.docs.pages import Block

ADDRESS = "http://127.0.0.1:8000"
"""The address in the pages; in the tests the service listens elsewhere."""

SHELL = "set -euo pipefail\n. ./.variables\n{source}\nexport -p > ./.variables\n"


@dataclass(slots=True)
class Reader:
    """Keeps what blocks leave for later ones: Python's names, exported variables, files, and the last output."""

    folder: Path
    url: str
    environment: Mapping[str, str]
    components: Mapping[str, Any]
    names: dict[str, Any] = field(default_factory=dict)
    printed: str = ""

    def __post_init__(self) -> None:
        (self.folder / ".variables").touch()

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
        done = subprocess.run(
            ["bash", "-c", SHELL.format(source=source)],
            cwd=self.folder,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        # curl does not report an answer that is a refusal.
        assert '"type":"/problems/' not in done.stdout, done.stdout
        self.printed = done.stdout

    def _run_python(self, source: str, block: Block) -> None:
        """Behave as the interactive interpreter of asyncio: `await` is allowed at the top level."""
        code = compile(source, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.chdir(self.folder):
            result = eval(code, self.names)  # noqa: S307
            if inspect.iscoroutine(result):
                asyncio.run(result)
        self.printed = output.getvalue()


def check_json(block: Block, components: Mapping[str, Any]) -> None:
    """Check that the block is JSON and, if it names a schema, valid for it. Raises ValueError."""
    value = orjson.loads(block.source)
    if block.marker == "schema":
        schema = {"$ref": f"#/components/schemas/{block.remark}", "components": components}
        jsonschema_rs.validator_for(schema).validate(value)
