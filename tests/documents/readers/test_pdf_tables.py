"""A table that a page break divides is one table, with one header and the pages of its rows."""

from __future__ import annotations

from collections.abc import Sequence

from app.documents.chunking import split
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.pdf.reader import parse
from tests.documents.chunks import count_framed
from tests.documents.drawn_pdf import PROSE, write_drawn_pdf, write_lines, write_rule, write_text

HEADER = ("Port", "Depth", "Berths")
ROWS = [(f"Harbour {name}", f"{depth}.5 m", f"{12 * depth}") for depth, name in enumerate("ABCDEF", start=2)]


def read(*pages: str) -> ParsedDocument:
    return parse(write_drawn_pdf(pages), ParseLimits())


def draw(rows: Sequence[Sequence[str]], top: float, *, ruled: bool = False, titled: bool = True) -> str:
    page = "".join(
        write_text(cell, 60 + 120 * column, top - 16 * row, font="F2" if titled and not row else "F1")
        for row, cells in enumerate(rows)
        for column, cell in enumerate(cells)
    )
    if ruled:
        low, high = top - 16 * len(rows) + 11, top + 11
        page += "".join(write_rule(55, high - 16 * row, 415, high - 16 * row) for row in range(len(rows) + 1))
        page += "".join(write_rule(55 + 120 * column, low, 55 + 120 * column, high) for column in range(4))
    return page


def list_rows(document: ParsedDocument) -> list[list[str]]:
    return [document.text[table.start : table.end].splitlines() for table in document.tables]


def write_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in rows]


WHOLE = [*write_rows([HEADER]), "| --- | --- | --- |", *write_rows(ROWS)]


def test_table_whose_header_is_repeated_on_the_next_page_is_one_table() -> None:
    for ruled in (True, False):
        document = read(
            write_lines(PROSE, 50, 800) + draw([HEADER, *ROWS[:3]], 400, ruled=ruled),
            draw([HEADER, *ROWS[3:]], 640, ruled=ruled) + write_lines(PROSE, 50, 400),
        )
        assert list_rows(document) == [WHOLE]
        (table,) = document.tables
        assert document.page_at(document.text.index("Harbour C")) == 1
        assert document.page_at(document.text.index("Harbour E")) == 2
        assert document.text[table.end :].startswith("\n\nThe harbour office")


def test_table_over_three_pages_without_a_repeated_header_is_one_table() -> None:
    document = read(
        draw([HEADER, *ROWS[:2]], 640, ruled=True),
        draw(ROWS[2:4], 600, ruled=True, titled=False),
        draw(ROWS[4:], 560, ruled=True, titled=False),
    )
    assert list_rows(document) == [WHOLE]
    assert [document.page_at(document.text.index(f"Harbour {name}")) for name in "ACE"] == [1, 2, 3]


def test_chunk_of_the_next_page_has_the_header_of_the_table() -> None:
    rows = [(f"Harbour {number}", f"{number}.5 m", f"{12 * number}") for number in range(120)]
    document = read(
        draw([HEADER, *rows[:40]], 780, ruled=True),
        draw(rows[40:80], 760, ruled=True, titled=False),
        draw([HEADER, *rows[80:]], 740, ruled=True),
    )
    assert len(document.tables) == 1
    header = document.text[: document.tables[0].header_end]
    chunks = split(document, count_framed, 60)
    assert len(chunks) > 3
    assert all(chunk.text.startswith(header) for chunk in chunks)
    (found,) = [chunk for chunk in chunks if "| Harbour 81 |" in chunk.text]
    assert found.page_end == 3


def test_tables_that_only_follow_each_other_stay_two() -> None:
    first = draw([HEADER, *ROWS[:3]], 640, ruled=True)
    other_header = draw([("Ferry", "Leaves", "Seats"), *ROWS[3:]], 600, ruled=True)
    assert len(read(first, other_header).tables) == 2
    text_between = write_text("Harbours in the north of the bay:", 55, 700) + draw(ROWS[3:], 600, ruled=True)
    assert len(read(first, text_between).tables) == 2
    other_columns = "".join(
        write_text(cell, 60 + 150 * column, 600 - 16 * row, font="F1")
        for row, cells in enumerate(ROWS[3:])
        for column, cell in enumerate(cells)
    )
    assert len(read(draw([HEADER, *ROWS[:3]], 640), other_columns).tables) == 2


def test_cells_of_many_lines_between_rules_are_cells() -> None:
    cells = [
        (60, 0, "Harbour"), (180, 0, "What it offers"),
        (60, 2, "Kappeln"), (180, 2, "Water and light at every berth,"), (180, 3, "a crane for boats of ten tons,"),
        (180, 4, "and a shop for sails."),
        (60, 6, "Arnis"), (180, 6, "One pontoon, a slipway, and"), (180, 7, "the smallest town of all."),
    ]  # fmt: skip
    drawn = "".join(write_text(text, x, 500 - 12 * line) for x, line, text in cells)
    rules = "".join(write_rule(55, y, 400, y) for y in (512, 488, 405))
    document = read(write_lines(PROSE, 50, 800) + drawn + rules)
    assert list_rows(document) == [
        [
            "| Harbour | What it offers |",
            "| --- | --- |",
            "| Kappeln | Water and light at every berth, a crane for boats of ten tons, and a shop for sails. |",
            "| Arnis | One pontoon, a slipway, and the smallest town of all. |",
        ]
    ]


def test_parts_of_a_formula_with_its_number_are_not_a_table() -> None:
    parts = [
        (140, 0, "A"),
        (230, 0, "B"),
        (60, 1, "r ="),
        (400, 1, "(46)"),
        (140, 2, "C"),
        (230, 2, "D"),
        (320, 2, "E"),
    ]
    drawn = "".join(write_text(text, x, 500 - 13 * line) for x, line, text in parts)
    assert list_rows(read(write_lines(PROSE, 50, 800) + drawn)) == []
