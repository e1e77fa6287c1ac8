"""The numbers and bullets of lists of Office files."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.documents.readers.builder import remove_marks

BULLET = "- "
MAX_INDENT = 8
"""Levels of a list that are set in."""
_MAX_PATTERN = 50
_PLACE = re.compile(r"%([1-9])")
_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Level:
    """How the items of one level of a list are marked.

    Attributes:
        kind: a format of `write_number`, or `bullet` or `none`.
        pattern: the mark, in which %1 stands for the number of the first level.
        start: the first number.
        style: the style of paragraphs that are items of this level.
    """

    kind: str
    pattern: str = ""
    start: int = 1
    style: str = ""


_UNKNOWN = Level("bullet")


def count_item(
    numbers: dict[int, int], levels: Mapping[int, Level], level: int, first: int | None = None, *, restart: bool = False
) -> str:
    """The mark before the next item of a level; `numbers` are those of the last items, by level, and are updated.

    The first item of a level has the number `first`, by default that of the level; with `restart`, this item has it.
    """
    found = levels.get(level, _UNKNOWN)
    first = found.start if first is None else first
    numbers[level] = first if restart else numbers.get(level, first - 1) + 1
    for deeper in [place for place in numbers if place > level]:
        del numbers[deeper]
    if found.kind in {"bullet", "none"}:
        return BULLET if found.kind == "bullet" else ""

    def write(match: re.Match[str]) -> str:
        place = int(match.group(1)) - 1
        shown = levels.get(place)
        return "" if shown is None else write_number(numbers.setdefault(place, shown.start), shown.kind)

    mark = remove_marks(_PLACE.sub(write, found.pattern[:_MAX_PATTERN])).strip()
    return f"{mark} " if mark else ""


def write_number(number: int, kind: str) -> str:
    """A number as decimalZero, lowerLetter, upperLetter, lowerRoman or upperRoman; as decimal for any other kind."""
    if kind in {"lowerLetter", "upperLetter"} and number > 0:
        text = chr(ord("a") + (number - 1) % 26) * min(1 + (number - 1) // 26, 5)
    elif kind in {"lowerRoman", "upperRoman"} and 0 < number < 4000:
        text = _write_roman(number)
    else:
        return f"{number:02}" if kind == "decimalZero" else str(number)
    return text.upper() if kind.startswith("upper") else text


def _write_roman(number: int) -> str:
    parts = []
    for value, sign in _ROMAN:
        parts.append(sign * (number // value))
        number %= value
    return "".join(parts)
