"""The numbers and bullets of a Word document's lists and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from app.documents.readers.office.counting import write_number
from app.documents.readers.office.docx.styles import read_value
from app.documents.readers.office.ooxml import find_children

_PLACE = re.compile(r"%([1-9])")
_MAX_PATTERN = 50


@dataclass(frozen=True, slots=True)
class _Level:
    kind: str
    pattern: str
    start: int
    style: str


@dataclass(slots=True)
class _Counted:
    """A series of numbers: how far each level is."""

    numbers: dict[int, int] = field(default_factory=dict)


class Numbering:
    """Counts the numbered paragraphs of one document, in order."""

    def __init__(self, root: Any) -> None:
        self._levels: dict[str, dict[int, _Level]] = {}
        self._abstract: dict[str, str] = {}
        self._restarted: dict[str, dict[int, int]] = {}
        self._counted: dict[str, _Counted] = {}
        for item in find_children(root, "abstractNum") if root is not None else ():
            self._levels[_attribute(item, "abstractNumId")] = dict(_read_levels(item))
        for item in find_children(root, "num") if root is not None else ():
            key = _attribute(item, "numId")
            self._abstract[key] = next(
                (read_value(part) for part in find_children(item, "abstractNumId")), ""
            )
            if starts := dict(_read_starts(item)):
                self._restarted[key] = starts

    def count(self, number: str, level: int | None, style: str) -> tuple[str, int] | None:
        """The mark before the next paragraph of a numbering, and its level; None if it is not numbered."""
        if number == "0":
            return None
        levels = self._levels.get(self._abstract.get(number, ""), {})
        if level is None:
            level = next((place for place, item in levels.items() if style and item.style == style), 0)
        found = levels.get(level)
        if found is None or found.kind == "bullet":
            return "- ", level
        if found.kind == "none":
            return "", level
        series = number if number in self._restarted else f"abstract {self._abstract[number]}"
        numbers = self._counted.setdefault(series, _Counted()).numbers
        first = self._restarted.get(number, {}).get(level, found.start)
        numbers[level] = numbers.get(level, first - 1) + 1
        for deeper in [place for place in numbers if place > level]:
            del numbers[deeper]

        def write(match: re.Match[str]) -> str:
            place = int(match.group(1)) - 1
            shown = levels.get(place)
            if shown is None:
                return ""
            return write_number(
                numbers.setdefault(place, shown.start), "decimal" if shown.kind == "bullet" else shown.kind
            )

        mark = _PLACE.sub(write, found.pattern).strip()
        return f"{mark} " if mark else "", level


def _attribute(element: Any, name: str) -> str:
    return next((str(value) for key, value in element.attrib.items() if key.endswith(f"}}{name}")), "")


def _read_levels(item: Any) -> Iterator[tuple[int, _Level]]:
    for level in find_children(item, "lvl"):
        place = _attribute(level, "ilvl")
        if place.isdecimal() and len(place) == 1:
            yield (
                int(place),
                _Level(
                    next((read_value(part) for part in find_children(level, "numFmt")), "decimal"),
                    next((read_value(part) for part in find_children(level, "lvlText")), "")[:_MAX_PATTERN],
                    _read_start(level, "start"),
                    next((read_value(part) for part in find_children(level, "pStyle")), ""),
                ),
            )


def _read_starts(item: Any) -> Iterator[tuple[int, int]]:
    for level in find_children(item, "lvlOverride"):
        place = _attribute(level, "ilvl")
        if (
            place.isdecimal()
            and len(place) == 1
            and next(find_children(level, "startOverride"), None) is not None
        ):
            yield int(place), _read_start(level, "startOverride")


def _read_start(level: Any, name: str) -> int:
    start = next((read_value(part) for part in find_children(level, name)), "1")
    return int(start) if start.isdecimal() and len(start) < 7 else 1
