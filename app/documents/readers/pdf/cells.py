"""The cells of a table, and their text as Markdown rows."""

from __future__ import annotations

from dataclasses import dataclass

_NEAR = 3.0


@dataclass(slots=True)
class Table:
    """Cells of text, the header row first; it takes a place among the pieces of a page.

    Attributes:
        starts: where its columns begin.
        titled: whether all of its first row is bold.
    """

    rows: list[list[str]]
    x0: float
    x1: float
    top: float
    bottom: float
    size: float
    starts: tuple[float, ...]
    titled: bool

    @property
    def y(self) -> float:
        """Its place in the order of lines."""
        return self.top

    def render(self) -> tuple[str, int]:
        """Markdown rows, and where the header with its delimiter row ends."""
        lines = self._write_rows()
        header = f"{lines[0]}\n|{' --- |' * max(map(len, self.rows))}"
        return "\n".join([header, *lines[1:]]), len(header)

    def continue_from(self, above: Table) -> str | None:
        """Markdown rows without a header if it continues a table of the page before, whose header becomes its own."""
        header = above.rows[0]
        repeated = self.rows[0] == header
        fits = len(above.starts) == len(self.starts) and all(
            abs(one - other) <= _NEAR for one, other in zip(above.starts, self.starts, strict=True)
        )
        if not repeated and (not fits or self.titled or len(self.rows[0]) != len(header)):
            return None
        if not repeated:
            self.rows.insert(0, header)
        return "\n".join(self._write_rows()[1:])

    def _write_rows(self) -> list[str]:
        width = max(map(len, self.rows))
        lines = []
        for row in self.rows:
            cells = [cell.replace("|", "\\|") for cell in row] + [""] * (width - len(row))
            lines.append(f"| {' | '.join(cells)} |")
        return lines
