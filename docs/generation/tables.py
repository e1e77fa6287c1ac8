"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def render_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; whatever would end a cell is taken out of it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
