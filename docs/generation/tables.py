"""Markdown tables."""

from collections.abc import Iterable, Sequence


def render_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Render a table; characters that would end a cell are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
