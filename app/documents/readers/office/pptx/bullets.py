"""The bullets and numbers before the paragraphs of a text box."""

from __future__ import annotations

from typing import Any

from app.documents.readers.office.counting import write_number
from app.documents.readers.office.ooxml import find_children, local_name

_MAX_LEVEL = 8
_KINDS = {
    "alphaLc": "lowerLetter",
    "alphaUc": "upperLetter",
    "romanLc": "lowerRoman",
    "romanUc": "upperRoman",
}
_SIGNS = {"ParenBoth": ("(", ")"), "ParenR": ("", ")"), "Plain": ("", "")}


class Bullets:
    """Counts the numbered paragraphs of one text box, in order."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def mark(self, paragraph: Any) -> str:
        """What stands before the text of the next paragraph, with the spaces of its level."""
        properties = next(find_children(paragraph, "pPr"), None)
        if properties is None:
            self._numbers.clear()
            return ""
        level = properties.get("lvl", "0")
        depth = min(int(level), _MAX_LEVEL) if level.isdecimal() and len(level) < 3 else 0
        for deeper in [place for place in self._numbers if place > depth]:
            del self._numbers[deeper]
        kinds = {local_name(item): item for item in properties}
        counted = kinds.get("buAutoNum")
        if counted is None or "buNone" in kinds:
            self._numbers.pop(depth, None)
            listed = depth > 0 or not kinds.keys().isdisjoint({"buChar", "buBlip"})
            return "  " * depth + "- " if listed and "buNone" not in kinds else ""
        number = self._numbers.get(depth, _read_start(counted) - 1) + 1
        self._numbers[depth] = number
        return f"{'  ' * depth}{_write(number, counted.get('type', ''))} "


def _read_start(counted: Any) -> int:
    start = counted.get("startAt", "1")
    return int(start) if start.isdecimal() and len(start) < 7 else 1


def _write(number: int, kind: str) -> str:
    before, after = next((signs for end, signs in _SIGNS.items() if kind.endswith(end)), ("", "."))
    written = write_number(number, _KINDS.get(kind[:7], "decimal"))
    return f"{before}{written}{after}"
