"""Put the tables of the last measurements into the documents: `python -m benchmarks.report.readme`."""

import sys

from benchmarks.place import KEPT, ROOT
from benchmarks.report.quality import LANGUAGES, QUALITY
from benchmarks.report.tables import COMPARISON

TABLES = (
    ("docs/figures.md", "speed", COMPARISON, "make bench"),
    ("docs/figures.md", "quality", QUALITY, "make eval"),
    ("docs/figures.md", "languages", LANGUAGES, "make eval"),
)
"""The document, the name of the table's place, the file with the table, and the command that writes it."""


def insert_table(text: str, name: str, table: str) -> str:
    """The text with the table between the two marks of its place. Raises ValueError without the marks."""
    begin, end = make_marks(name)
    before, _, rest = text.partition(begin)
    _, mark, after = rest.partition(end)
    if not mark:
        raise ValueError(f"the text has no {begin} … {end}")
    return f"{before}{begin}\n\n{table.strip()}\n\n{end}{after}"


def make_marks(name: str) -> tuple[str, str]:
    """The comments before and after a table."""
    return f"<!-- {name}: written by python -m benchmarks.report.readme -->", f"<!-- end of {name} -->"


def main() -> int:
    """Replace the tables that were measured; returns the exit status."""
    found = False
    for document, name, file, command in TABLES:
        if not (KEPT / file).is_file():
            print(f"{document}: the table of {name} is unchanged; `{command}` measures it", file=sys.stderr)
            continue
        found, path = True, ROOT / document
        table = (KEPT / file).read_text(encoding="utf-8")
        path.write_text(insert_table(path.read_text(encoding="utf-8"), name, table), encoding="utf-8")
        print(f"{document}: the table of {name}")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
