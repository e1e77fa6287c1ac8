"""Generated files: lock files and source maps as lists of names, and style sheets, described if they are minified."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder, parse_source
from app.documents.readers.text import collapse_spaces, take_value
from app.errors import UnreadableDocument

# A shorter file is cut into few chunks, whatever it contains.
_MIN_LENGTH = 2_000
_LONG_LINE = 500
# Of a minified file, long lines are more than this share, and spaces in them less than that one.
_LONG_SHARE = 0.6
_SPACE_SHARE = 0.08
# Comments that minifiers keep, such as the name of a library and its licence.
_OPENS, _CLOSES = "/*!", "*/"
_MAX_LENGTH = 1_500
_MAX_KEPT = 20


def is_minified(text: str) -> bool:
    """Whether most of a text is long lines without spaces, as minifiers write them."""
    if len(text) < _MIN_LENGTH:
        return False
    long = [line for line in text.splitlines() if len(line) > _LONG_LINE]
    length = sum(map(len, long))
    return length > _LONG_SHARE * len(text) and sum(line.count(" ") for line in long) < _SPACE_SHARE * length


def describe(text: str, limits: ParseLimits, format_name: str, label: str) -> ParsedDocument:
    """The comments that name the library and its licence, and a sentence about the file."""
    builder = TextBuilder(limits)
    for kept in dict.fromkeys(islice(_list_kept(text), _MAX_KEPT)):
        builder.add("\n".join(line.strip().lstrip("*").strip() for line in kept.strip().splitlines()))
    builder.add(f"Minified {label} of {len(text):,} characters. Its code is not searched; the source of it can be.")
    return builder.finish(format_name)


def _list_kept(text: str) -> Iterator[str]:
    start = text.find(_OPENS)
    while start >= 0:
        end = text.find(_CLOSES, start + len(_OPENS))
        if end < 0:
            return
        if end - start <= _MAX_LENGTH:
            yield text[start + len(_OPENS) : end]
        start = text.find(_OPENS, end)


def parse_stylesheet(text: str, limits: ParseLimits) -> ParsedDocument:
    """Read a style sheet; chunks are cut first at blank lines."""
    if is_minified(text):
        return describe(text, limits, "css", "CSS")
    return parse_source(text, limits, "code")


_MAX_SOURCES = 10_000


def parse_source_map(text: str, limits: ParseLimits) -> ParsedDocument:
    """Read the names of the generated file and of its sources. Raises UnreadableDocument for broken JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableDocument("the source map is damaged: its JSON cannot be read") from None
    builder = TextBuilder(limits)
    name = take_value(value, "file", str)
    builder.add(f"Source map of {collapse_spaces(name)[:300]}" if name else "Source map")
    builder.add("\n".join(_list_sources(value)[:_MAX_SOURCES]))
    return builder.finish("sourcemap")


def _list_sources(value: Any) -> list[str]:
    maps = [value, *(take_value(item, "map", dict) for item in take_value(value, "sections", list))]
    names = [name for found in maps for name in take_value(found, "sources", list)]
    return [collapse_spaces(name) for name in names if isinstance(name, str)]


# Cargo, Poetry and uv; Yarn; pnpm; Bundler.
_FORMS = (
    re.compile(r'^\[\[package\]\]\nname = "(?P<name>[^"\n]{1,200})"\nversion = "(?P<version>[^"\n]{1,100})"', re.M),
    re.compile(r'^"?(?P<name>@?[^@"\s]{1,200})@[^\n]{0,1000}:\n  version:? "?(?P<version>[^"\n]{1,100})', re.M),
    re.compile(
        r"^  ['\"/]{0,2}(?P<name>@?[^@'\"\s/]{1,100}(?:/[^@'\"\s]{1,100})?)@(?P<version>\d[^:'\"\s()]{0,60})", re.M
    ),
    re.compile(r"^    (?P<name>[\w.-]{1,100}) \((?P<version>\d[^)\n]{0,60})\)$", re.M),
)
_MAX_DEPTH = 50


def parse_lock_file(text: str, limits: ParseLimits) -> ParsedDocument:
    """Read names and versions; a lock file in an unknown form is kept unchanged."""
    text = text.replace("\r\n", "\n")
    builder = TextBuilder(limits)
    lines = list(dict.fromkeys(f"{name} {version}" for name, version in _list_packages(text)))
    builder.add_lines(lines)
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
            listed = ((None, item) for item in found) if isinstance(found, list) else ()
            for name, item in found.items() if isinstance(found, dict) else listed:
                if not isinstance(item, dict):
                    continue
                name = name or item.get("name")
                version = item.get("version")
                if isinstance(name, str) and isinstance(version, str) and name:
                    yield name.rpartition("node_modules/")[2], version.removeprefix("==")
                if key == "dependencies":
                    waiting.append((item, depth + 1))
