"""The lock file: every package has hashes, no file names an index, and the versions fit each other."""

import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
LISTS = sorted((ROOT / "requirements").glob("*.txt"))


def read_locked(listed: Path | None = None) -> list[str]:
    """The lines of the lock file, or of its packages that a list names: `name==version ; marker --hash=…`."""
    lock = ROOT / "requirements.lock"
    text = lock.read_text("utf-8")
    if listed is not None:
        named: list[str | Path] = ["awk", "-f", ROOT / "requirements/locked.awk", listed, lock]
        text = subprocess.run(named, check=True, capture_output=True, text=True).stdout
    return text.replace("\\\n", "").splitlines()


def test_lock_has_only_pinned_packages_with_hashes() -> None:
    packages = read_locked()
    assert len(packages) > 200
    for package in packages:
        requirement, *hashes = re.split(r"\s+--hash=", package)
        assert re.fullmatch(r"[a-z0-9.-]+==[^\s;]+( ; .+)?\s*", requirement), requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}\s*", item) for item in hashes), requirement


@pytest.mark.parametrize("listed", LISTS, ids=lambda path: path.stem)
def test_all_packages_of_a_list_are_locked(listed: Path) -> None:
    locked = [package.split()[0] for package in read_locked(listed)]
    assert sorted(locked) == sorted(line.split()[0] for line in listed.read_text("utf-8").splitlines())


def test_requirements_of_the_locked_packages_are_fulfilled_except_the_overridden_ones() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    overridden = {Requirement(item).name for item in settings["tool"]["uv"]["override-dependencies"]}
    locked = {}
    for package in read_locked(ROOT / "requirements/dev.txt"):
        given = Requirement(package.partition("--hash")[0].strip())
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
