"""Compares the version in `pyproject.toml` with every other place that has it; `make version` rewrites them.

`make check` runs it. The service reads its version from the installed package; these files cannot.
"""

import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLACES: Mapping[str, str] = {
    "pyproject.toml": r'"knowledge-client==([^"]+)"',
    "clients/python/pyproject.toml": r'^version = "([^"]+)"$',
    "clients/typescript/README.md": r"knowledge-client-(\S+)\.tgz",
    "clients/typescript/package.json": r'^  "version": "([^"]+)"',
    "clients/typescript/package-lock.json": r'"name": "knowledge-client",\n +"version": "([^"]+)"',
    "deploy/helm/Chart.yaml": r"^(?:version|appVersion): (\S+)$",
    "docker-compose.yml": r"^  image: knowledge-search:(\S+)$",
    "docs/operations/monitoring.md": r"knowledge_search-(\S+?)-py3",
}
"""The files with the version, and what stands around it."""
ENTRY = re.compile(r"^## \[(\d\S*)\]", re.MULTILINE)


def read_version() -> str:
    """The version of the service and of both clients."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def find_others(version: str) -> dict[str, set[str]]:
    """The other versions in each file; an empty set for a file that has none at all."""
    found = {name: set(re.findall(around, read(name), re.MULTILINE)) for name, around in PLACES.items()}
    found["CHANGELOG.md"] = set(ENTRY.findall(read("CHANGELOG.md"))[:1])
    return {name: versions - {version} for name, versions in found.items() if versions != {version}}


def rewrite(version: str) -> None:
    """Write the version in all files but the changelog."""
    for name, around in PLACES.items():

        def replace(found: re.Match[str]) -> str:
            return found[0].replace(found[1], version)

        (ROOT / name).write_text(re.sub(around, replace, read(name), flags=re.MULTILINE), "utf-8")


def read(name: str) -> str:
    """The text of a file of the project."""
    return (ROOT / name).read_text("utf-8")


def main() -> int:
    """Print each file that has another version; return 1 when there is one."""
    version = read_version()
    if "--write" in sys.argv:
        rewrite(version)
    others = find_others(version)
    for name, found in others.items():
        remedy = "begin an entry" if name == "CHANGELOG.md" else "run: make version"
        sys.stdout.write(f"{name} has {', '.join(sorted(found)) or 'no version'} instead of {version}; {remedy}\n")
    return min(len(others), 1)


if __name__ == "__main__":
    sys.exit(main())
