"""What a person sees on a page of a PDF is what its text says: order, paragraphs, headings, tables, lists."""

from __future__ import annotations

from pathlib import Path

import pytest

import app.samples
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.pdf.reader import parse
from tests.documents.drawn_pdf import PROSE, write_drawn_pdf, write_lines, write_rule, write_text

HANDBOOK = Path(app.samples.__file__).parent / "documents" / "incident-handbook.pdf"


def read(*pages: str) -> ParsedDocument:
    return parse(write_drawn_pdf(pages), ParseLimits())


def mark(words: tuple[str, ...], name: str) -> list[str]:
    """Lines of prose that begin with a name, so that their order can be seen."""
    return [f"{name}{place} {line}" for place, line in enumerate(words)]


def list_order(document: ParsedDocument, *names: str) -> list[int]:
    places = [document.text.index(f"{name}{place} ") for name in names for place in range(len(PROSE))]
    assert len(places) == len(set(places))
    return places


@pytest.fixture(scope="module")
def handbook() -> ParsedDocument:
    return parse(HANDBOOK.read_bytes(), ParseLimits())


def test_handbook_section_has_its_heading_and_its_text(handbook: ParsedDocument) -> None:
    titles = [heading.title for heading in handbook.headings]
    assert titles == [
        "Incident Response Handbook",
        "1. Before anything happens",
        "2. Severity",
        "3. Roles",
        "4. The first fifteen minutes",
        "5. Runbooks for frequent cases",
        "5.1 The API answers with HTML",
        "5.2 Many ERR_CONN_RESET errors",
        "5.3 Payments are pending",
        "5.4 Gates do not open",
        "6. Talking to customers",
        "7. When it is over",
        "8. The review",
        "9. Exercises",
        "Appendix: numbers to call",
    ]
    by_title = {heading.title: heading for heading in handbook.headings}
    assert by_title["5.3 Payments are pending"].level == by_title["4. The first fifteen minutes"].level + 1
    start = by_title["5.3 Payments are pending"].start
    text = handbook.text[start : by_title["5.4 Gates do not open"].start]
    assert text.startswith("5.3 Payments are pending\n\nWhen Paylane does not send its webhooks, bookings stay")
    assert text.rstrip().endswith("while the provider is marked as degraded.")


def test_handbook_table_has_markdown_rows(handbook: ParsedDocument) -> None:
    severity, numbers = handbook.tables
    assert handbook.text[severity.start : severity.header_end] == (
        "| Level | Meaning | Acknowledge | Updates |\n| --- | --- | --- | --- |"
    )
    rows = handbook.text[severity.header_end : severity.end].strip().splitlines()
    assert rows[2] == "| SEV3 | An annoyance with a workaround | next working day | when it is solved |"
    assert (
        "| Data protection officer | any suspicion about personal data |"
        in (handbook.text[numbers.start : numbers.end])
    )


def test_handbook_has_no_running_lines(handbook: ParsedDocument) -> None:
    assert "page 2" not in handbook.text
    assert handbook.text.count("Incident Response Handbook") == 1


def test_handbook_list_items_are_whole(handbook: ParsedDocument) -> None:
    assert (
        "\n1. Acknowledge the page and type /incident in the chat. This opens a channel, a timeline and a call.\n"
        in (handbook.text)
    )
    assert "\n- At most three actions come out of a review, each with a name and a date.\n" in handbook.text


def test_two_columns_are_read_after_each_other_between_full_lines() -> None:
    page = write_text("A heading across the whole page of text", 50, 800, size=16, font="F2")
    page += write_lines(mark(PROSE, "a"), 50, 770) + write_lines(mark(PROSE, "b"), 310, 770)
    page += write_text("Another heading across the whole page", 50, 640, size=16, font="F2")
    page += write_lines(mark(PROSE, "c"), 50, 610) + write_lines(mark(PROSE, "d"), 310, 610)
    document = read(page)
    first, second = (heading.start for heading in document.headings)
    order = [first, *list_order(document, "a", "b"), second, *list_order(document, "c", "d")]
    assert order == sorted(order)
    assert not document.tables


def test_three_columns_are_read_after_each_other() -> None:
    narrow = tuple(line[:26].rsplit(" ", 1)[0] for line in PROSE)
    page = "".join(write_lines(mark(narrow, name), x, 770) for name, x in (("a", 40), ("b", 220), ("c", 400)))
    order = list_order(read(page), "a", "b", "c")
    assert order == sorted(order)


def test_sentence_that_goes_on_in_the_next_column_is_one_paragraph() -> None:
    left = [*mark(PROSE, "a"), "The ferry to the other side goes only when"]
    page = write_lines(left, 50, 770) + write_lines(["the tide allows it.", *mark(PROSE, "b")], 310, 770)
    assert "The ferry to the other side goes only when the tide allows it." in read(page).text


def test_table_without_rules_is_not_read_as_columns() -> None:
    rows = [
        ("Port", "Depth", "Berths"),
        ("Kiel", "4.5 m", "120"),
        ("Husum", "2.0 m", "35"),
        ("Emden", "6.1 m", "80"),
    ]
    page = "".join(
        write_text(cell, x, 700 - 14 * place)
        for place, row in enumerate(rows)
        for cell, x in zip(row, (60, 200, 330), strict=True)
    )
    document = read(write_lines(PROSE, 60, 800) + page + write_lines(PROSE, 60, 600))
    (table,) = document.tables
    assert document.text[table.start : table.end].splitlines() == [
        "| Port | Depth | Berths |",
        "| --- | --- | --- |",
        "| Kiel | 4.5 m | 120 |",
        "| Husum | 2.0 m | 35 |",
        "| Emden | 6.1 m | 80 |",
    ]


def test_cell_of_several_lines_is_one_cell() -> None:
    page = "".join(write_rule(60, y, 400, y) for y in (700, 670, 630))
    page += "".join(write_rule(x, 630, x, 700) for x in (60, 160, 400))
    page += write_text("Name", 65, 685) + write_text("Use | form", 165, 685)
    page += write_text("Gate", 65, 655) + write_lines(["It keeps the pontoon", "closed at night."], 165, 655)
    document = read(page)
    (table,) = document.tables
    assert document.text[table.header_end : table.end].strip() == "| Gate | It keeps the pontoon closed at night. |"
    assert "| Name | Use \\| form |" in document.text


def test_paragraph_has_no_line_breaks_and_ends_where_the_next_begins() -> None:
    page = write_lines(PROSE, 60, 760) + write_lines(PROSE, 60, 760 - 12 * len(PROSE) - 8)
    assert read(page).text.split("\n\n") == [" ".join(PROSE)] * 2


def test_indented_line_begins_a_paragraph() -> None:
    page = write_lines(PROSE, 60, 760) + write_text("   " + PROSE[0], 72, 760 - 12 * len(PROSE))
    page += write_lines(PROSE[1:], 60, 760 - 12 * (len(PROSE) + 1))
    assert read(page).text.split("\n\n") == [" ".join(PROSE)] * 2


def test_heading_is_told_by_its_size_its_weight_or_its_number() -> None:
    page = write_text("Large", 60, 800, size=18) + write_lines(PROSE, 60, 770)
    page += write_text("Bold", 60, 650, font="F2") + write_lines(PROSE, 60, 630)
    page += write_text("2.1 Numbered", 60, 510) + write_lines(PROSE, 60, 490)
    headings = read(page).headings
    assert [(heading.title, heading.level) for heading in headings] == [
        ("Large", 1),
        ("Bold", 2),
        ("2.1 Numbered", 3),
    ]


def test_large_or_bold_item_of_a_list_is_not_a_heading() -> None:
    page = write_text("Slide with items", 50, 800, size=16, font="F2")
    page += write_text("• First item in large letters", 50, 770, size=14)
    page += write_text("- Second item in heavy letters", 50, 740, font="F2")
    page += write_lines(PROSE, 50, 700)
    assert [heading.title for heading in read(page).headings] == ["Slide with items"]


def test_font_with_wide_stems_is_not_bold_and_bold_code_is_not_a_heading() -> None:
    page = write_text("Firing", 60, 800, font="F2") + write_lines(PROSE, 60, 770, font="F4")
    page += write_text("A kiln gets hot", 60, 650, font="F4") + write_text("def fire(kiln)", 60, 620, font="F5")
    assert [heading.title for heading in read(page).headings] == ["Firing"]


def test_running_lines_are_removed_and_the_text_goes_on() -> None:
    pages = []
    for number in range(1, 6):
        prose = [*PROSE[number:], *PROSE[:number]]
        text = [*PROSE, "The watch never"] if number == 1 else ["sleeps at night."] * (number == 2) + prose
        pages.append(
            write_text("Rules of the harbour", 60, 815, size=8)
            + write_lines(text, 60, 780)
            + write_text(f"- {number} -", 290, 30, size=8)
        )
    document = read(*pages)
    assert "Rules of the harbour" not in document.text
    assert "- 3 -" not in document.text
    assert "The watch never sleeps at night. has left." in document.text
    assert document.text[document.pages[1].start :].startswith("sleeps at night.")


def test_lines_that_differ_from_page_to_page_are_kept() -> None:
    pages = [write_text(f"Berth {word}", 60, 815) + write_lines(PROSE, 60, 780) for word in ("north", "east", "west")]
    text = read(*pages).text
    assert all(f"Berth {word}" in text for word in ("north", "east", "west"))


def test_word_divided_by_a_page_break_is_on_the_page_on_which_it_begins() -> None:
    document = read(
        write_lines([*PROSE, "The key opens the pon-"], 60, 780),
        write_lines(["toon at night.", *PROSE], 60, 780),
    )
    first, second = document.pages
    assert document.text[first.start : first.end].endswith("The key opens the pontoon")
    assert document.text[second.start : second.end].startswith("at night.")


def test_footnote_is_outside_the_sentence_that_goes_on() -> None:
    page = write_lines(PROSE[:-1], 60, 700) + write_text("The berth", 60, 616)
    page += write_text("1", 103, 620, size=6) + write_text("is free when the", 108, 616)
    page += write_lines(["1 A place for one boat, as the harbour's rules name it."], 60, 60, size=7)
    document = read(page, write_lines(["flag is green.", *PROSE], 60, 780))
    assert "The berth[1] is free when the flag is green." in document.text
    assert "1 A place for one boat, as the harbour's rules name it.\n\n" in document.text


def test_turned_text_of_a_drawing_is_outside_the_sentence_that_goes_on() -> None:
    label = "BT /F1 10 Tf 0 1 -1 0 40 300 Tm (Depth in metres) Tj ET\n"
    document = read(write_lines(PROSE[:-1], 60, 780) + label, write_lines([PROSE[-1], *PROSE], 60, 780))
    assert "list of all keys and of the people that carry them home." in document.text
    assert document.text.startswith("Depth in metres\n\n")


def test_table_of_contents_has_no_headings() -> None:
    lines = [f"{number} Chapter of keys {'. ' * 30}{number * 7}" for number in range(1, 9)]
    document = read(
        write_text("Contents", 60, 800, size=16, font="F2") + write_lines(lines, 60, 770, font="F2"),
        write_text("1 Chapter of keys", 60, 800, size=14, font="F2") + write_lines(PROSE, 60, 770),
    )
    assert [heading.title for heading in document.headings] == ["Contents", "1 Chapter of keys"]
    assert "3 Chapter of keys … 21" in document.text


def test_pages_that_show_something_without_text_are_listed() -> None:
    image = "q 595 0 0 842 0 0 cm /I Do Q"
    document = read(write_lines(PROSE, 60, 780), image, "", image)
    assert document.pages_without_text == (2, 4)


def test_rotated_page_is_read_in_its_direction() -> None:
    lines = "".join(
        f"BT /F1 10 Tf 0 1 -1 0 {100 + 12 * place} 60 Tm ({line}) Tj ET\n" for place, line in enumerate(PROSE)
    )
    assert read(lines).text == " ".join(PROSE)


def test_long_file_is_read_without_layout_when_its_time_runs_out() -> None:
    pages = [write_text("Heading", 60, 800, size=18) + write_lines(PROSE, 60, 770)] * 3
    document = parse(write_drawn_pdf(pages), ParseLimits(seconds=0))
    assert PROSE[0] in document.text
    assert document.headings == ()
    assert len(document.pages) == 3
