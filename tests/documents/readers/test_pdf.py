from __future__ import annotations

import pytest

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.pdf.lines import join_hyphenation
from app.documents.readers.pdf.reader import parse
from app.errors import UnreadableDocument
from tests.documents.drawn_pdf import PROSE, write_drawn_pdf, write_lines, write_text
from tests.fixtures.documents import write_pdf, write_pdf_with

LIMITS = ParseLimits()


def test_pdf_pages_have_their_numbers() -> None:
    document = parse(write_pdf([["Erste Seite"], [], ["Größe (m) \\ ß"]]), LIMITS)
    assert document.text == "Erste Seite\n\nGröße (m) \\ ß"
    assert document.total_pages == 3
    assert [document.text[page.start : page.end] for page in document.pages] == [
        "Erste Seite",
        "",
        "Größe (m) \\ ß",
    ]
    assert [document.page_at(offset) for offset in (0, 10, 13, 20)] == [1, 1, 3, 3]


def test_pdf_hyphenation_is_joined() -> None:
    lines = ["Die Wissens-", "suche kennt Ein-", "und Ausgaben, E-", "Mails und 2019-", "2020."]
    text = parse(write_pdf([lines]), LIMITS).text
    assert "Wissenssuche" in text
    assert "Ein- und Ausgaben" in text
    assert "E-Mails" in text
    assert "2019-2020" in text


def test_pdf_hyphenated_word_keeps_its_hyphen() -> None:
    assert join_hyphenation("a well-\nknown, well-known thing") == "a well-known, well-known thing"
    assert join_hyphenation("infor-\nmation") == "information"


def test_pdf_hyphenation_time_is_linear_in_the_text() -> None:
    # If the time were quadratic, this would take longer than a test suite can wait.
    assert join_hyphenation("a" * 1_000_000 + "-\nb") == "a" * 1_000_000 + "b"
    assert join_hyphenation("a" * 1_000_000) == "a" * 1_000_000


def test_pdf_outline_gives_headings() -> None:
    data = write_pdf_with(
        [["Intro  text"], ["before", "Linux setup", "body"]],
        outline=[("Intro", 0, False), ("Linux  setup", 1, True), ("Nowhere on the page", 1, False)],
        title="The Guide",
    )
    document = parse(data, LIMITS)
    assert document.title == "The Guide"
    page = document.pages[1].start
    assert [(heading.start, heading.level, heading.title) for heading in document.headings] == [
        (0, 1, "Intro"),
        (page, 1, "Nowhere on the page"),
        (document.text.index("Linux setup"), 2, "Linux setup"),
    ]


def test_pdf_title_set_by_a_program_is_ignored() -> None:
    assert parse(write_pdf_with([["x"]], title="Microsoft Word - draft.doc"), LIMITS).title is None


def test_pdf_encrypted_without_user_password_is_read() -> None:
    assert parse(write_pdf_with([["secret"]], user_password=""), LIMITS).text == "secret"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (write_pdf_with([["secret"]], user_password="pw"), "the PDF is encrypted"),
        (b"%PDF-1.4\n", "damaged or incomplete"),
        (b"%PDF-1.7\n" + bytes(range(256)) * 20, "damaged or incomplete"),
        (write_pdf([["x"]])[:300], "damaged|no text layer|no pages"),
        (write_pdf([]), "no pages|damaged"),
        (write_pdf([[], []]), "no text layer"),
        (write_pdf([["x"]] * 3), "3 pages; at most 2"),
    ],
)
def test_unreadable_pdf_is_reported_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableDocument, match=reason):
        parse(data, ParseLimits(max_pages=2))


@pytest.mark.parametrize("kids", ["2 0 R", "2 0 R 5 0 R", "5 0 R 5 0 R 99 0 R"])
def test_pdf_with_a_looping_page_tree_ends(kids: str) -> None:
    try:
        document = parse(write_pdf([["x"]], kids=kids, count=3), LIMITS)
    except UnreadableDocument:
        return
    assert set(document.text.split()) == {"x"}


def test_pdf_that_claims_endless_pages_is_refused() -> None:
    with pytest.raises(UnreadableDocument):
        parse(write_pdf([["x"]], kids="2 0 R", count=1_000_000_000), LIMITS)


def test_title_is_the_largest_heading_at_the_beginning_if_the_file_states_none() -> None:
    section = write_text("Opening hours", 60, 700, size=14, font="F2") + write_lines(PROSE, 60, 670)
    title = write_text("Handbook of the harbour", 60, 800, size=22)
    second = write_text("for its guests", 60, 774, size=22)
    assert _read_drawn(title + section, section).title == "Handbook of the harbour"
    assert _read_drawn(title + second + section).title == "Handbook of the harbour for its guests"


def test_section_numbered_or_repeated_on_the_first_page_is_not_the_title() -> None:
    section = write_text("Opening hours", 60, 800, size=14, font="F2") + write_lines(PROSE, 60, 770)
    other = write_text("Keys", 60, 600, size=14, font="F2") + write_lines(PROSE, 60, 570)
    assert _read_drawn(section + other).title is None
    assert _read_drawn(section.replace("Opening", "1 Opening")).title is None
    hardly = write_text("Dear guests", 60, 800, size=11, font="F2") + write_lines(PROSE, 60, 770)
    assert _read_drawn(hardly).title is None
    assert _read_drawn(write_lines(PROSE * 2, 60, 800) + write_text("Late", 60, 500, size=18)).title is None


def _read_drawn(*pages: str) -> ParsedDocument:
    return parse(write_drawn_pdf(pages), LIMITS)
