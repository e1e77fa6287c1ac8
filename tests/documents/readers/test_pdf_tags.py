"""Headings of a tagged PDF are those of its structure tree, whatever their fonts are."""

from __future__ import annotations

import pytest

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.pdf.reader import parse
from tests.documents.drawn_pdf import PROSE, mark_content, write_drawn_pdf, write_lines, write_text

LIES = (
    mark_content(0, write_text("Opening hours of the office", 50, 800, font="F1"))
    + mark_content(1, write_lines(PROSE, 50, 788))
    + mark_content(2, write_text("Call the watch at any time!", 50, 650, size=18, font="F2"))
    + mark_content(3, write_text("Rules for guests of boat owners and of all other", 50, 600, font="F1"))
    + mark_content(4, write_text("people that have a key", 50, 588, font="F1"))
    + mark_content(5, write_lines(PROSE, 50, 576))
)
"""Headings in the font of the text, and text in a font of headings."""


def read(structure: str, *pages: str) -> ParsedDocument:
    return parse(write_drawn_pdf(pages, structure), ParseLimits())


def list_headings(document: ParsedDocument) -> list[tuple[int, str]]:
    for heading in document.headings:
        assert document.text.startswith(heading.title.split()[0], heading.start)
    return [(heading.level, heading.title) for heading in document.headings]


LONG = "Rules for guests of boat owners and of all other people that have a key"


@pytest.mark.parametrize(
    ("structure", "levels"),
    [
        ("Document(H1(0.0) P(0.1) P(0.2) H2(0.3 0.4) P(0.5))", (1, 2)),
        ("H1(0.0) P(0.1) P(0.2) H3(Span(0.3) Span(Link(0.4))) P(0.5)", (1, 3)),
        ("Sect(H(0.0) P(0.1) P(0.2) Sect(H(0.3 0.4) P(0.5)))", (1, 2)),
        ("Title(0.0) P(0.1) P(0.2) H12(0.3 0.4) P(0.5)", (1, 6)),
    ],
)
def test_tags_name_headings_where_fonts_lie(structure: str, levels: tuple[int, int]) -> None:
    document = read(structure, LIES)
    assert list_headings(document) == [(levels[0], "Opening hours of the office"), (levels[1], LONG)]
    assert "Opening hours of the office\n\nThe harbour office opens" in document.text
    assert f"{LONG}\n\nThe harbour office opens" in document.text


@pytest.mark.parametrize(
    "structure",
    [
        "",
        "Document(P(0.0) P(0.1) P(0.2) P(0.3 0.4) P(0.5))",
        "Document(Table(TR(TD(H1(0.0)))) P(0.1) P(0.2) TOC(TOCI(H2(0.3 0.4))) P(0.5))",
        "H1(0.0 0.1 0.2 0.3 0.4 0.5)",
    ],
)
def test_fonts_name_headings_where_tags_do_not(structure: str) -> None:
    assert list_headings(read(structure, LIES)) == [(1, "Call the watch at any time!")]


def test_few_tags_in_a_long_file_do_not_replace_its_other_headings() -> None:
    pages = [write_text(f"Part {number} of the book", 50, 500, size=18, font="F2") for number in range(25)]
    pages = [mark_content(0, title) + write_lines(PROSE, 50, 470) for title in pages]
    assert len(read("H1(0.0)", *pages).headings) == 25
    assert len(read("H1(0.0) H1(9.0)", *pages).headings) == 2


def test_tags_that_name_every_paragraph_do_not_count() -> None:
    page = mark_content(0, write_text("The harbour office", 50, 780, size=18, font="F2"))
    for place, line in enumerate(PROSE, start=1):
        page += mark_content(place, write_text(line, 50, 780 - 24 * place))
    structure = " ".join(f"H1(0.{place})" for place in range(9))
    assert list_headings(read(structure, page)) == [(1, "The harbour office")]


def test_heading_with_a_number_apart_stays_outside_of_tables() -> None:
    rows = [("1.1", "Depth of the harbour"), ("Kiel", "4.5 m"), ("Laboe", "3.2 m"), ("Eckernförde", "6.0 m")]
    page = "".join(
        mark_content(place, write_text(left, 50, 780 - 14 * place) + write_text(right, 200, 780 - 14 * place))
        for place, (left, right) in enumerate(rows)
    )
    document = read("H2(0.0) P(0.1) P(0.2) P(0.3)", page)
    assert list_headings(document) == [(2, "1.1 Depth of the harbour")]
    (table,) = document.tables
    assert document.text[table.start : table.end].startswith("| Kiel | 4.5 m |")


def test_tagged_heading_is_kept_at_the_place_of_running_lines() -> None:
    pages = [
        mark_content(0, write_text(f"Slide about the {name}", 50, 800)) + write_lines(PROSE, 50, 700)
        for name in ("harbour", "quay", "watch", "ferry", "keys", "boats")
    ]
    structure = " ".join(f"H1({place}.0)" for place in range(6))
    assert [title for _, title in list_headings(read(structure, *pages))][:2] == [
        "Slide about the harbour",
        "Slide about the quay",
    ]


def test_endless_and_huge_structure_trees_end() -> None:
    deep = "Sect(" * 5_000 + "H1(0.0)" + ")" * 5_000
    assert "Opening hours" in read(deep, LIES).text
    wide = "Document(" + " ".join(f"H1(0.{number})" for number in range(1_500)) + ")"
    assert read(wide, LIES).text
    looped = write_drawn_pdf([LIES], "Document(Sect(H1(0.0)))")
    assert looped.count(b"/P 6 0 R") == 1
    assert "Opening hours" in parse(looped.replace(b"/P 6 0 R", b"/P 8 0 R"), ParseLimits()).text
    assert "Opening hours" in parse(looped.replace(b"/K [9 0 R]", b"/K [7 0 R 8 0 R 9 0 R]"), ParseLimits()).text
