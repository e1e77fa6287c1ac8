"""The lock files: every package has hashes, no file names an index, and the versions fit each other."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
LOCKS = {
    "requirements.lock": 30,
    "requirements-dev.lock": 30,
    "requirements-ocr.lock": 30,
    "requirements-helm.lock": 10,
    "requirements-llamaindex.lock": 40,
    "requirements-audit.lock": 30,
}
"""Of each lock file: a number of packages that it surely exceeds."""


@pytest.mark.parametrize(("name", "fewest"), LOCKS.items())
def test_lock_has_only_pinned_packages_with_hashes(name: str, fewest: int) -> None:
    text = (ROOT / name).read_text("utf-8")
    packages = text.replace("\\\n", "").splitlines()
    assert len(packages) > fewest
    for package in packages:
        requirement, *hashes = re.split(r"\s+--hash=", package)
        assert re.fullmatch(r"[a-z0-9.-]+==[^\s;]+( ; .+)?\s*", requirement), requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}\s*", item) for item in hashes), requirement


def test_requirements_of_the_locked_packages_are_fulfilled_except_the_overridden_ones() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    overridden = {Requirement(item).name for item in settings["tool"]["uv"]["override-dependencies"]}
    locked = {}
    for line in (ROOT / "requirements-dev.lock").read_text("utf-8").splitlines():
        if line[0].isalpha():
            given = Requirement(line.rstrip("\\ "))
            if given.marker is None or given.marker.evaluate():
                locked[given.name] = str(given.specifier).removeprefix("==")
    unfulfilled = set()
    for name in locked:
        for line in metadata.requires(name) or ():
            needed = Requirement(line)
            if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
                continue
            version = locked.get(re.sub(r"[-_.]+", "-", needed.name).lower())
            if version is None or not needed.specifier.contains(version, prereleases=True):
                unfulfilled.add(needed.name)
    assert unfulfilled == overridden
