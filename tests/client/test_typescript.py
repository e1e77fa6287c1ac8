"""The OpenAPI document gives a working TypeScript client: generated, type-checked strictly, and run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.fixtures.http.running_service import RunningService

SOURCES = Path(__file__).parent / "typescript"
GENERATE = (
    *("npx", "--no-install", "openapi-typescript", "openapi.json", "--output", "schema.d.ts"),
    # Otherwise a request must name every field that has a default.
    "--default-non-nullable=false",
)
CHECK_AND_BUILD = ("npx", "--no-install", "tsc")
pytestmark = pytest.mark.slow


def run(command: Sequence[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The program's folder, with the generator, the compiler and the client's runtime installed."""
    if shutil.which("npm") is None or shutil.which("npx") is None:
        pytest.skip("npm and npx are not installed")
    shutil.copytree(SOURCES, tmp_path, dirs_exist_ok=True)
    done = run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"], tmp_path)
    if done.returncode != 0:
        pytest.skip(f"npm cannot install the generator here: {done.stderr.strip().splitlines()[-1:]}")
    return tmp_path


def test_a_generated_typescript_client_type_checks_and_works(
    project: Path, service: RunningService, token: str
) -> None:
    document = httpx.get(f"{service.url}/openapi.json", trust_env=False, timeout=60)
    (project / "openapi.json").write_bytes(document.content)
    generated = run(GENERATE, project)
    assert generated.returncode == 0, generated.stdout + generated.stderr
    checked = run(CHECK_AND_BUILD, project)
    assert checked.returncode == 0, checked.stdout
    done = run(["node", "out/workflow.js"], project, KNOWLEDGE_URL=service.url, KNOWLEDGE_TOKEN=token)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == "ok"
