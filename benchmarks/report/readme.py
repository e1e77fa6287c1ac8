"""Put the table of the last measurement into the README: `python -m benchmarks.report.readme`."""

from __future__ import annotations

import sys

from benchmarks.place import KEPT, ROOT
from benchmarks.report.tables import COMPARISON

BEGIN, END = "<!-- speed: written by python -m benchmarks.report.readme -->", "<!-- end of speed -->"


def insert_table(text: str, table: str) -> str:
    """The text with the table between its two marks. Raises ValueError without the marks."""
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the text has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{table.strip()}\n\n{END}{after}"


def main() -> int:
    """Replace the table; returns the exit status."""
    table, readme = KEPT / COMPARISON, ROOT / "README.md"
    if not table.is_file():
        print(f"{table} does not exist; run `make bench` first", file=sys.stderr)
        return 1
    text = readme.read_text(encoding="utf-8")
    readme.write_text(insert_table(text, table.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
