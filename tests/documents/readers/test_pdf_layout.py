"""Reading order, paragraphs, tables and headings of a PDF."""

import re
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import pytest

import app.samples
from app.documents.chunking import split
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.pdf.reader import parse
from tests.documents.chunks import count_framed
from tests.documents.drawn_pdf import (
    PROSE,
    mark_content,
    read_drawn,
    write_drawn_pdf,
    write_lines,
    write_rule,
    write_text,
)

HANDBOOK = Path(app.samples.__file__).parent / "documents" / "incident-handbook.pdf"


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
    document = read_drawn(page)
    first, second = (heading.start for heading in document.headings)
    order = [first, *list_order(document, "a", "b"), second, *list_order(document, "c", "d")]
    assert order == sorted(order)
    assert not document.tables


def test_three_columns_are_read_after_each_other() -> None:
    narrow = tuple(line[:26].rsplit(" ", 1)[0] for line in PROSE)
    page = "".join(write_lines(mark(narrow, name), x, 770) for name, x in (("a", 40), ("b", 220), ("c", 400)))
    order = list_order(read_drawn(page), "a", "b", "c")
    assert order == sorted(order)


def test_sentence_that_goes_on_in_the_next_column_is_one_paragraph() -> None:
    left = [*mark(PROSE, "a"), "The ferry to the other side goes only when"]
    page = write_lines(left, 50, 770) + write_lines(["the tide allows it.", *mark(PROSE, "b")], 310, 770)
    assert "The ferry to the other side goes only when the tide allows it." in read_drawn(page).text


def test_table_without_rules_is_not_read_as_columns() -> None:
    rows = [("Port", "Depth", "Berths"), ("Kiel", "4.5 m", "120"), ("Husum", "2.0 m", "35"), ("Emden", "6.1 m", "80")]
    page = "".join(
        write_text(cell, x, 700 - 14 * place)
        for place, row in enumerate(rows)
        for cell, x in zip(row, (60, 200, 330), strict=True)
    )
    document = read_drawn(write_lines(PROSE, 60, 800) + page + write_lines(PROSE, 60, 600))
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
    document = read_drawn(page)
    (table,) = document.tables
    assert document.text[table.header_end : table.end].strip() == "| Gate | It keeps the pontoon closed at night. |"
    assert "| Name | Use \\| form |" in document.text


def test_paragraph_has_no_line_breaks_and_ends_where_the_next_begins() -> None:
    page = write_lines(PROSE, 60, 760) + write_lines(PROSE, 60, 760 - 12 * len(PROSE) - 8)
    assert read_drawn(page).text.split("\n\n") == [" ".join(PROSE)] * 2


def test_indented_line_begins_a_paragraph() -> None:
    page = write_lines(PROSE, 60, 760) + write_text("   " + PROSE[0], 72, 760 - 12 * len(PROSE))
    page += write_lines(PROSE[1:], 60, 760 - 12 * (len(PROSE) + 1))
    assert read_drawn(page).text.split("\n\n") == [" ".join(PROSE)] * 2


def test_heading_is_told_by_its_size_its_weight_or_its_number() -> None:
    page = write_text("Large", 60, 800, size=18) + write_lines(PROSE, 60, 770)
    page += write_text("Bold", 60, 650, font="F2") + write_lines(PROSE, 60, 630)
    page += write_text("2.1 Numbered", 60, 510) + write_lines(PROSE, 60, 490)
    headings = read_drawn(page).headings
    assert [(heading.title, heading.level) for heading in headings] == [("Large", 1), ("Bold", 2), ("2.1 Numbered", 3)]


def test_large_or_bold_item_of_a_list_is_not_a_heading() -> None:
    page = write_text("Slide with items", 50, 800, size=16, font="F2")
    page += write_text("• First item in large letters", 50, 770, size=14)
    page += write_text("- Second item in heavy letters", 50, 740, font="F2")
    page += write_lines(PROSE, 50, 700)
    assert [heading.title for heading in read_drawn(page).headings] == ["Slide with items"]


def test_headings_of_a_paper_in_two_columns_are_told_by_the_bold_font_of_its_typesetter() -> None:
    page = "".join(
        write_text(f"{place} Harbour rules", x, 780, size=12, font="F6") + write_lines(PROSE, x, 766, size=11)
        for place, x in enumerate((50, 310), start=1)
    )
    assert [heading.title for heading in read_drawn(page).headings] == ["1 Harbour rules", "2 Harbour rules"]


def test_font_with_wide_stems_is_not_bold_and_bold_code_is_not_a_heading() -> None:
    page = write_text("Firing", 60, 800, font="F2") + write_lines(PROSE, 60, 770, font="F4")
    page += write_text("A kiln gets hot", 60, 650, font="F4") + write_text("def fire(kiln)", 60, 620, font="F5")
    assert [heading.title for heading in read_drawn(page).headings] == ["Firing"]


def test_title_and_the_heading_below_it_are_two_and_the_lines_of_a_title_are_one() -> None:
    page = write_text("Rules of the harbour", 200, 800, size=18) + write_text("Scope", 60, 778, size=18)
    assert [h.title for h in read_drawn(page + write_lines(PROSE, 60, 740)).headings] == [
        "Rules of the harbour",
        "Scope",
    ]
    page = write_text("Rules of the harbour of", 200, 800, size=18) + write_text("Eckernförde", 246, 778, size=18)
    assert [h.title for h in read_drawn(page + write_lines(PROSE, 60, 740)).headings] == [
        "Rules of the harbour of Eckernförde"
    ]


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
    document = read_drawn(*pages)
    assert "Rules of the harbour" not in document.text
    assert "- 3 -" not in document.text
    assert "The watch never sleeps at night. has left." in document.text
    assert document.text[document.pages[1].start :].startswith("sleeps at night.")


def test_lines_that_differ_from_page_to_page_are_kept() -> None:
    pages = [write_text(f"Berth {word}", 60, 815) + write_lines(PROSE, 60, 780) for word in ("north", "east", "west")]
    text = read_drawn(*pages).text
    assert all(f"Berth {word}" in text for word in ("north", "east", "west"))


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize(
    "first",
    [
        "{} Roquefort",
        "Question {}",
        "Account 430{}",
        "Invoice 8823{}",
        "Opening balance: {}21.00 USD",
        "Certificate no. 100{}",
    ],
)
def test_text_with_a_number_at_the_place_of_running_lines_is_kept(first: str, count: int) -> None:
    firsts = [first.format(number) for number in range(1, count + 1)]
    for size, font in ((10, "F1"), (18, "F1"), (10, "F2")):
        pages = [
            write_text(line, 60, 815, size=size, font=font)
            + write_lines([*PROSE[number:], *PROSE[:number]], 60, 780)
            + write_text(f"Page {number} of {count}", 290, 30, size=8)
            for number, line in enumerate(firsts, start=1)
        ]
        text = read_drawn(*pages).text
        assert [line for line in firsts if line not in text] == []
        assert "Page " not in text


@pytest.mark.parametrize(
    "write",
    [
        lambda number: write_text(f"Rules of the harbour | {number}", 60, 815, size=8),
        lambda number: write_text(f"Rules, page {number} of 6", 60, 815, size=8),
        lambda number: write_text("Rules of the harbour", 60, 815, size=8) + write_text(str(number), 500, 815, size=8),
        lambda number: (
            write_text(str(number + 1044), 60, 815, size=8) + write_text(f"Rules {number % 2}", 200, 815, size=8)
        ),
        lambda number: write_text(("iv", "v", "vi", "1", "2", "3")[number - 1], 290, 815, size=8),
        lambda number: write_text(f"Seite {number}/6", 290, 815, size=8),
    ],
)
def test_page_numbers_are_removed_with_the_running_heads_next_to_them(write: Callable[[int], str]) -> None:
    pages = [write(number) + write_lines([*PROSE[number:], *PROSE[:number]], 60, 780) for number in range(1, 7)]
    lines = [line for line in read_drawn(*pages).text.splitlines() if re.search(r"\d|Rules|^[iv]+$", line)]
    assert lines == []


@pytest.mark.parametrize(
    "firsts",
    [
        ("1848", "1871", "1918", "1949", "1990"),
        ("42 %", "17 %", "9 %", "12 %", "30 %"),
        ("1 | Plan of pier c", "2 | Depth of pier d", "3 | Owners of pier e", "4 | Fees of pier f", "5 | Keys"),
        ("See page 1 for the bell", "See page 2 for the gate", "See page 3 for keys", "See page 4", "Page 5 has all"),
    ],
)
@pytest.mark.parametrize("y", [815, 30])
def test_lines_that_differ_in_more_than_a_page_number_are_kept(firsts: Sequence[str], y: int) -> None:
    for size in (10, 18):
        pages = [
            write_text(line, 60, y, size=size) + write_lines([*PROSE[number:], *PROSE[:number]], 60, 780)
            for number, line in enumerate(firsts, start=1)
        ]
        text = read_drawn(*pages).text
        assert [line for line in firsts if line not in text] == []


def test_running_heads_that_look_like_headings_are_removed() -> None:
    for size, font in ((10, "F2"), (12, "F1")):
        pages = [
            write_text("Annual Report 2023", 60, 815, size=size, font=font)
            + write_text(str(number), 500, 815, size=size, font=font)
            + write_text(f"Confidential - page {number} of 14", 60, 30, size=size, font=font)
            + write_lines([*PROSE[number % 7 :], *PROSE[: number % 7]], 60, 780)
            for number in range(1, 15)
        ]
        document = read_drawn(*pages)
        assert not document.headings
        assert not re.search(r"\d", document.text)


def test_text_of_a_page_without_running_lines_is_kept_where_others_have_them() -> None:
    pages = [
        write_lines([*PROSE[number % 7 :], *PROSE[: number % 7]], 60, 780)
        + write_text("The last line of this page." if number == 5 else str(number), 290, 60)
        for number in range(1, 10)
    ]
    assert "The last line of this page." in read_drawn(*pages).text


def test_forms_in_rules_at_the_top_of_pages_are_kept() -> None:
    frame = "".join(write_rule(50, y, 540, y) for y in (790, 805, 820))
    frame += "".join(write_rule(x, 790, x, 820) for x in (50, 200, 540))
    pages = [
        frame
        + "".join(write_text(text, x, 809) for text, x in (("Certificate no.", 60), (str(1006 + number), 210)))
        + "".join(write_text(text, x, 794) for text, x in (("Hull no.", 60), (str(5500 + 11 * number), 210)))
        + write_lines(mark(PROSE, "abcdef"[number]), 60, 760)
        for number in range(5)
    ]
    text = read_drawn(*pages).text
    assert all(f"{1006 + number}" in text and f"{5500 + 11 * number}" in text for number in range(5))


def test_word_divided_by_a_page_break_is_on_the_page_on_which_it_begins() -> None:
    document = read_drawn(
        write_lines([*PROSE, "The key opens the pon-"], 60, 780), write_lines(["toon at night.", *PROSE], 60, 780)
    )
    first, second = document.pages
    assert document.text[first.start : first.end].endswith("The key opens the pontoon")
    assert document.text[second.start : second.end].startswith("at night.")


def test_footnote_is_outside_the_sentence_that_goes_on() -> None:
    page = write_lines(PROSE[:-1], 60, 700) + write_text("The berth", 60, 616)
    page += write_text("1", 103, 620, size=6) + write_text("is free when the", 108, 616)
    page += write_lines(["1 A place for one boat, as the harbour's rules name it."], 60, 60, size=7)
    document = read_drawn(page, write_lines(["flag is green.", *PROSE], 60, 780))
    assert "The berth[1] is free when the flag is green." in document.text
    assert "1 A place for one boat, as the harbour's rules name it.\n\n" in document.text


@pytest.mark.parametrize("y", [100, 640])
def test_footnote_of_the_first_column_is_outside_the_sentence_that_goes_on(y: int) -> None:
    page = write_lines([*PROSE, "The ferry to the other side goes only when"], 50, 770)
    page += write_lines(["1 The list is kept in the office of the", "watch, where it can be seen."], 50, y, size=8)
    document = read_drawn(page + write_lines(["the tide allows it.", *PROSE], 310, 770))
    assert "The ferry to the other side goes only when the tide allows it." in document.text


def test_running_heads_between_rules_are_not_read_as_tables() -> None:
    frame = "".join(write_rule(50, y, 540, y) for y in (790, 805, 820))
    frame += "".join(write_rule(x, 790, x, 820) for x in (50, 200, 540))
    pages = [
        frame
        + "".join(write_text(text, x, y) for text, x, y in (("Manual", 60, 809), (f"Part {name}", 210, 809)))
        + "".join(write_text(text, x, y) for text, x, y in (("Port", 60, 794), (f"Page {place}", 210, 794)))
        + write_lines(mark(PROSE, name), 60, 760)
        for place, name in enumerate("abcdef", start=1)
    ]
    document = read_drawn(*pages)
    assert not document.tables
    assert "Manual" not in document.text


def test_turned_text_of_a_drawing_is_outside_the_sentence_that_goes_on() -> None:
    label = "BT /F1 10 Tf 0 1 -1 0 40 300 Tm (Depth in metres) Tj ET\n"
    document = read_drawn(write_lines(PROSE[:-1], 60, 780) + label, write_lines([PROSE[-1], *PROSE], 60, 780))
    assert "list of all keys and of the people that carry them home." in document.text
    assert document.text.startswith("Depth in metres\n\n")


def test_table_of_contents_has_no_headings() -> None:
    lines = [f"{number} Chapter of keys {'. ' * 30}{number * 7}" for number in range(1, 9)]
    document = read_drawn(
        write_text("Contents", 60, 800, size=16, font="F2") + write_lines(lines, 60, 770, font="F2"),
        write_text("1 Chapter of keys", 60, 800, size=14, font="F2") + write_lines(PROSE, 60, 770),
    )
    assert [heading.title for heading in document.headings] == ["Contents", "1 Chapter of keys"]
    assert "3 Chapter of keys … 21" in document.text


def test_pages_that_show_something_without_text_are_listed() -> None:
    image = "q 595 0 0 842 0 0 cm /I Do Q"
    document = read_drawn(write_lines(PROSE, 60, 780), image, "", image)
    assert document.pages_without_text == (2, 4)


def test_rotated_page_is_read_in_its_direction() -> None:
    lines = "".join(
        f"BT /F1 10 Tf 0 1 -1 0 {100 + 12 * place} 60 Tm ({line}) Tj ET\n" for place, line in enumerate(PROSE)
    )
    assert read_drawn(lines).text == " ".join(PROSE)


def test_long_file_is_read_without_layout_and_at_last_not_at_all_when_its_time_runs_out() -> None:
    pages = [write_text("Heading", 60, 800, size=18) + write_lines(mark(PROSE, name), 60, 770) for name in "abc"]
    # Each look at the clock takes a second, and the third page finds that 85 % of 8 seconds have passed.
    document = parse(write_drawn_pdf(pages), ParseLimits(seconds=8), count().__next__)
    assert [document.page_at(heading.start) for heading in document.headings] == [1]
    assert "b0 The harbour" in document.text
    assert "c0 The harbour" not in document.text
    assert document.pages_without_text == (3,)
    assert len(document.pages) == 3


HEADER = ("Port", "Depth", "Berths")
ROWS = [(f"Harbour {name}", f"{depth}.5 m", f"{12 * depth}") for depth, name in enumerate("ABCDEF", start=2)]


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
        document = read_drawn(
            write_lines(PROSE, 50, 800) + draw([HEADER, *ROWS[:3]], 400, ruled=ruled),
            draw([HEADER, *ROWS[3:]], 640, ruled=ruled) + write_lines(PROSE, 50, 400),
        )
        assert list_rows(document) == [WHOLE]
        (table,) = document.tables
        assert document.page_at(document.text.index("Harbour C")) == 1
        assert document.page_at(document.text.index("Harbour E")) == 2
        assert document.text[table.end :].startswith("\n\nThe harbour office")


def test_table_over_three_pages_without_a_repeated_header_is_one_table() -> None:
    document = read_drawn(
        draw([HEADER, *ROWS[:2]], 640, ruled=True),
        draw(ROWS[2:4], 600, ruled=True, titled=False),
        draw(ROWS[4:], 560, ruled=True, titled=False),
    )
    assert list_rows(document) == [WHOLE]
    assert [document.page_at(document.text.index(f"Harbour {name}")) for name in "ACE"] == [1, 2, 3]


def test_chunk_of_the_next_page_has_the_header_of_the_table() -> None:
    rows = [(f"Harbour {number}", f"{number}.5 m", f"{12 * number}") for number in range(120)]
    document = read_drawn(
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
    assert len(read_drawn(first, other_header).tables) == 2
    text_between = write_text("Harbours in the north of the bay:", 55, 700) + draw(ROWS[3:], 600, ruled=True)
    assert len(read_drawn(first, text_between).tables) == 2
    other_columns = "".join(
        write_text(cell, 60 + 150 * column, 600 - 16 * row, font="F1")
        for row, cells in enumerate(ROWS[3:])
        for column, cell in enumerate(cells)
    )
    assert len(read_drawn(draw([HEADER, *ROWS[:3]], 640), other_columns).tables) == 2


def test_cells_of_many_lines_between_rules_are_cells() -> None:
    cells = [
        (60, 0, "Harbour"), (180, 0, "What it offers"),
        (60, 2, "Kappeln"), (180, 2, "Water and light at every berth,"), (180, 3, "a crane for boats of ten tons,"),
        (180, 4, "and a shop for sails."),
        (60, 6, "Arnis"), (180, 6, "One pontoon, a slipway, and"), (180, 7, "the smallest town of all."),
    ]  # fmt: skip
    drawn = "".join(write_text(text, x, 500 - 12 * line) for x, line, text in cells)
    rules = "".join(write_rule(55, y, 400, y) for y in (512, 488, 405))
    document = read_drawn(write_lines(PROSE, 50, 800) + drawn + rules)
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
    assert list_rows(read_drawn(write_lines(PROSE, 50, 800) + drawn)) == []


LIES = (
    mark_content(0, write_text("Opening hours of the office", 50, 800, font="F1"))
    + mark_content(1, write_lines(PROSE, 50, 788))
    + mark_content(2, write_text("Call the watch at any time!", 50, 650, size=18, font="F2"))
    + mark_content(3, write_text("Rules for guests of boat owners and of all other", 50, 600, font="F1"))
    + mark_content(4, write_text("people that have a key", 50, 588, font="F1"))
    + mark_content(5, write_lines(PROSE, 50, 576))
)
"""Headings in the font of the text, and text in a font of headings."""


def read_tagged(structure: str, *pages: str) -> ParsedDocument:
    return read_drawn(*pages, structure=structure)


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
    document = read_tagged(structure, LIES)
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
    assert list_headings(read_tagged(structure, LIES)) == [(1, "Call the watch at any time!")]


def test_few_tags_in_a_long_file_do_not_replace_its_other_headings() -> None:
    pages = [write_text(f"Part {number} of the book", 50, 500, size=18, font="F2") for number in range(25)]
    pages = [mark_content(0, title) + write_lines(PROSE, 50, 470) for title in pages]
    assert len(read_tagged("H1(0.0)", *pages).headings) == 25
    assert len(read_tagged("H1(0.0) H1(9.0)", *pages).headings) == 2


def test_tags_that_name_every_paragraph_do_not_count() -> None:
    page = mark_content(0, write_text("The harbour office", 50, 780, size=18, font="F2"))
    for place, line in enumerate(PROSE, start=1):
        page += mark_content(place, write_text(line, 50, 780 - 24 * place))
    structure = " ".join(f"H1(0.{place})" for place in range(9))
    assert list_headings(read_tagged(structure, page)) == [(1, "The harbour office")]


def test_heading_with_a_number_apart_stays_outside_of_tables() -> None:
    rows = [("1.1", "Depth of the harbour"), ("Kiel", "4.5 m"), ("Laboe", "3.2 m"), ("Eckernförde", "6.0 m")]
    page = "".join(
        mark_content(place, write_text(left, 50, 780 - 14 * place) + write_text(right, 200, 780 - 14 * place))
        for place, (left, right) in enumerate(rows)
    )
    document = read_tagged("H2(0.0) P(0.1) P(0.2) P(0.3)", page)
    assert list_headings(document) == [(2, "1.1 Depth of the harbour")]
    (table,) = document.tables
    assert document.text[table.start : table.end].startswith("| Kiel | 4.5 m |")


def test_tagged_heading_is_kept_at_the_place_of_running_lines() -> None:
    pages = [
        mark_content(0, write_text(f"Slide about the {name}", 50, 800)) + write_lines(PROSE, 50, 700)
        for name in ("harbour", "quay", "watch", "ferry", "keys", "boats")
    ]
    structure = " ".join(f"H1({place}.0)" for place in range(6))
    assert [title for _, title in list_headings(read_tagged(structure, *pages))][:2] == [
        "Slide about the harbour",
        "Slide about the quay",
    ]


def test_endless_and_huge_structure_trees_end() -> None:
    deep = "Sect(" * 5_000 + "H1(0.0)" + ")" * 5_000
    assert "Opening hours" in read_tagged(deep, LIES).text
    wide = "Document(" + " ".join(f"H1(0.{number})" for number in range(1_500)) + ")"
    assert read_tagged(wide, LIES).text
    looped = write_drawn_pdf([LIES], "Document(Sect(H1(0.0)))")
    assert looped.count(b"/P 6 0 R") == 1
    assert "Opening hours" in parse(looped.replace(b"/P 6 0 R", b"/P 8 0 R"), ParseLimits()).text
    assert "Opening hours" in parse(looped.replace(b"/K [9 0 R]", b"/K [7 0 R 8 0 R 9 0 R]"), ParseLimits()).text


@pytest.mark.parametrize("kind", ["/Widget /FT /Tx /T (name) /V (Ada Kontor)", "/FreeText /Contents (Ada Kontor)"])
def test_filled_fields_and_typed_notes_are_read_and_hidden_ones_are_not(kind: str) -> None:
    shown, hidden = (
        f"<< /Type /Annot /Subtype {kind} /Rect [200 695 300 715] /F {flags} /AP << /N 900 0 R >> >>"
        for flags in (4, 2)
    )
    content = "BT /F1 10 Tf 2 5 Td (Ada Kontor) Tj ET"
    form = (
        "900 0 obj\n<< /Type /XObject /Subtype /Form /BBox [0 0 100 20] /Resources << /Font << /F1 << /Type /Font "
        f"/Subtype /Type1 /BaseFont /Helvetica >> >> >> /Length {len(content)} >>\nstream\n{content}\nendstream\n"
        "endobj\n"
    )
    page = write_lines(PROSE, 60, 780) + write_text("Name of the owner:", 60, 700)
    drawn = write_drawn_pdf([page]).replace(b"trailer", form.encode() + b"trailer")
    for annotation, found in ((shown, True), (hidden, False)):
        data = drawn.replace(b"/StructParents 0", f"/StructParents 0 /Annots [{annotation}]".encode())
        assert ("Name of the owner: Ada Kontor" in parse(data, ParseLimits()).text) == found
