"""Lock files of package managers: a line with name and version of each package, without hashes and addresses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.text import decode_text

# Cargo, Poetry and uv; Yarn; pnpm; Bundler.
_FORMS = (
    re.compile(r'^\[\[package\]\]\nname = "(?P<name>[^"\n]{1,200})"\nversion = "(?P<version>[^"\n]{1,100})"', re.M),
    re.compile(r'^"?(?P<name>@?[^@"\s]{1,200})@[^\n]{0,1000}:\n  version:? "?(?P<version>[^"\n]{1,100})', re.M),
    re.compile(
        r"^  ['\"/]{0,2}(?P<name>@?[^@'\"\s/]{1,100}(?:/[^@'\"\s]{1,100})?)@(?P<version>\d[^:'\"\s()]{0,60})",
        re.M,
    ),
    re.compile(r"^    (?P<name>[\w.-]{1,100}) \((?P<version>\d[^)\n]{0,60})\)$", re.M),
)
_MAX_DEPTH = 50
_BLOCK = 200


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read names and versions; a lock file in an unknown form is kept unchanged."""
    text = decode_text(data).replace("\r\n", "\n")
    builder = TextBuilder(limits)
    lines = list(dict.fromkeys(f"{name} {version}" for name, version in _list_packages(text)))
    for first in range(0, len(lines), _BLOCK):
        builder.add("\n".join(lines[first : first + _BLOCK]), gap="\n")
    if not lines:
        builder.add(text)
    return builder.finish("lockfile", title="Locked packages" if lines else None)


def _list_packages(text: str) -> Iterator[tuple[str, str]]:
    if text.lstrip().startswith("{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return
        yield from _list_entries(value)
        return
    for form in _FORMS:
        if form.search(text):
            yield from ((match.group("name"), match.group("version")) for match in form.finditer(text))
            return


def _list_entries(value: Any) -> Iterator[tuple[str, str]]:
    """The packages of npm, Composer and Pipenv."""
    waiting = [(value, 0)]
    while waiting:
        group, depth = waiting.pop()
        if not isinstance(group, dict) or depth > _MAX_DEPTH:
            continue
        for key in ("packages", "packages-dev", "dependencies", "default", "develop"):
            found = group.get(key)
            named = (
                found.items()
                if isinstance(found, dict)
                else [(None, item) for item in found or () if isinstance(found, list)]
            )
            for name, item in named:
                if not isinstance(item, dict):
                    continue
                name = name or item.get("name")
                version = item.get("version")
                if isinstance(name, str) and isinstance(version, str) and name:
                    yield name.rpartition("node_modules/")[2], version.removeprefix("==")
                if key == "dependencies":
                    waiting.append((item, depth + 1))
