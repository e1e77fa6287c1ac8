"""The OpenAPI document gives working clients in Python and TypeScript: generated, type-checked, and run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.fixtures.http.running_service import RunningService
from tests.fixtures.node import expect_success, install_packages

SOURCES = Path(__file__).parent
GENERATE_PYTHON = (
    *(sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none"),
    *("--config", "config.yml", "--output-path", "knowledge_generated", "--fail-on-warning"),
)
TOOLS = "node_modules"
GENERATE_TYPESCRIPT = (*("node", f"{TOOLS}/openapi-typescript/bin/cli.js", "openapi.json", "--output", "schema.d.ts"),)
CHECK_AND_BUILD = ("node", f"{TOOLS}/typescript/bin/tsc")


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


@pytest.mark.slow
def test_a_generated_typescript_client_type_checks_and_works(
    tmp_path: Path, service: RunningService, token: str
) -> None:
    project = make_project("typescript", tmp_path, service)
    install_packages(project)
    expect_success(GENERATE_TYPESCRIPT, project)
    expect_success(CHECK_AND_BUILD, project)
    expect_ok(("node", "out/workflow.js"), project, service, token)
