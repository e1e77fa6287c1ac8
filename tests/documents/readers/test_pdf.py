"""The words of a PDF: their characters, spaces and hyphens, and which are hidden."""

import pytest

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.pdf.reader import parse
from app.documents.readers.text import join_hyphenation
from app.errors import UnreadableDocument
from tests.documents.drawn_pdf import PROSE, read_drawn, write_lines, write_text
from tests.documents.listing import list_hidden, list_pages
from tests.fixtures.documents import write_pdf, write_pdf_with

LIMITS = ParseLimits()


def test_pdf_pages_have_their_numbers() -> None:
    document = parse(write_pdf([["Erste Seite"], [], ["Größe (m) \\ ß"]]), LIMITS)
    assert document.text == "Erste Seite\n\nGröße (m) \\ ß"
    assert document.total_pages == 3
    assert list_pages(document) == ["Erste Seite", "", "Größe (m) \\ ß"]
    assert [document.page_at(offset) for offset in (0, 10, 13, 20)] == [1, 1, 3, 3]


def test_characters_above_the_basic_plane_are_read_whole() -> None:
    letters = ("𝑉", "𠮷", "😀", "a")
    text = "".join(write_text(word, 40 + 40 * place, 700, font="T4") for place, word in enumerate(("A", "DBD", "C")))
    assert read_drawn(text, letters=letters).text == "𝑉 a𠮷a 😀"


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


def test_pdf_outline_without_places_gives_the_first_page_one_heading() -> None:
    outline = [(f"Chapter {number}", 0, False) for number in range(20)]
    document = parse(write_pdf_with([["Preface"], ["Chapter 1"]], outline=outline), LIMITS)
    assert [heading.title for heading in document.headings] == ["Chapter 0"]


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
    assert read_drawn(title + section, section).title == "Handbook of the harbour"
    assert read_drawn(title + second + section).title == "Handbook of the harbour for its guests"


def test_section_numbered_or_repeated_on_the_first_page_is_not_the_title() -> None:
    section = write_text("Opening hours", 60, 800, size=14, font="F2") + write_lines(PROSE, 60, 770)
    other = write_text("Keys", 60, 600, size=14, font="F2") + write_lines(PROSE, 60, 570)
    assert read_drawn(section + other).title is None
    assert read_drawn(section.replace("Opening", "1 Opening")).title is None
    hardly = write_text("Dear guests", 60, 800, size=11, font="F2") + write_lines(PROSE, 60, 770)
    assert read_drawn(hardly).title is None
    assert read_drawn(write_lines(PROSE * 2, 60, 800) + write_text("Late", 60, 500, size=18)).title is None


def read_below(*drawn: str) -> ParsedDocument:
    """A page with prose, and with what is drawn below it."""
    return read_drawn(write_lines(PROSE, 60, 780) + "".join(drawn))


@pytest.mark.parametrize(
    ("drawn", "text"),
    [
        ("A di\x1berent o\x1bce \x1crst, \x1dat or e\x1ecient", "A different offce first, flat or efficient"),
        ("\x102\x153 \x1cts\x11 \x16 \x12so\x10 \x13oui\x14", "“2–3 fits” — „so“ «oui»"),
        ("A di\x0berent \x0crst and e\x0ecient 2{3", "A different first and efficient 2–3"),
        ("A plain {brace} and a | bar", "A plain {brace} and a | bar"),
        ("A bell\x07ringer rings", "A bellringer rings"),
    ],
)
def test_control_characters_of_fonts_for_text_are_ligatures_dashes_and_quotes(drawn: str, text: str) -> None:
    document = read_below(write_text(drawn, 60, 500))
    assert document.text.endswith(f"\n\n{text}")
    assert document.hidden == ()


def test_a_bullet_of_a_font_of_symbols_begins_an_item() -> None:
    items = [
        write_text("\x0f", 60, 500 - 14 * place, font="T3")
        + write_text(f"Rule {name} of the harbour", 75, 500 - 14 * place)
        for place, name in enumerate(("one", "two"))
    ]
    assert read_below(*items).text.endswith("- Rule one of the harbour\n- Rule two of the harbour")


@pytest.mark.parametrize("character", ["\x10", "\x14", "\x15", "\x16", "\x1b"])
@pytest.mark.parametrize("font", ["F1", "T3"])
def test_a_control_character_does_not_end_hidden_text(character: str, font: str) -> None:
    drawn = write_text(f"{character}unseen {character} words {character}", 60, 500, before="1 1 1 rg", font=font)
    document = read_below(drawn)
    (span,) = document.hidden
    hidden = document.text[span.start : span.end]
    assert "unseen" in hidden
    assert "words" in hidden
    assert span.reason == "same_colour"
    assert not any(ord(each) < 32 and each != "\n" for each in document.text)


def test_code_in_a_font_without_a_name_keeps_its_lines() -> None:
    code = ("for boat in harbour", "  print boat name and berth", "done")
    document = read_below(write_lines(code, 60, 500, font="T3"))
    assert document.text.endswith("\n\n" + "\n".join(code))


def test_few_words_in_a_font_without_a_name_are_not_taken_for_code() -> None:
    document = read_below(write_lines(("of boats and", "harbours"), 60, 500, font="T3"))
    assert document.text.endswith("of boats and harbours")


def test_word_divided_by_a_gap_is_one_word() -> None:
    lines = write_lines(["The harbour office sends a list of all its free ber-"], 60, 780)
    document = read_drawn(lines + write_lines(["ths to the guests of the other harbours."], 60, 740))
    assert "all its free berths to the guests" in document.text


def test_address_in_a_font_for_code_does_not_make_its_paragraph_code() -> None:
    address = "https://harbour.example/berths/list"
    drawn = write_lines(PROSE[:2], 60, 780)
    drawn += write_text("see ", 60, 756) + write_text(address, 80, 756, font="F3")
    document = read_drawn(drawn + write_lines(PROSE[2:], 60, 744))
    assert f"when the last boat see {address} has left." in document.text


def test_code_keeps_its_lines_and_indentation() -> None:
    code = ["def open(gate):", "    if gate.free:", "        gate.open()"]
    page = write_lines(PROSE, 60, 780)
    for place, line in enumerate(code):
        stripped = line.lstrip()
        page += write_text(stripped, 60 + 6 * (len(line) - len(stripped)), 660 - 12 * place, font="F3")
    assert "\n".join(code) in read_drawn(page).text


def test_space_between_letters_of_one_text_object_is_read() -> None:
    # As in files of groff: the end of a word and the beginning of the next are one text object with spaced letters.
    below = "BT /F4 10 Tf 60 780 Td (belo) Tj ET BT /F4 10 Tf 77.22 780 Td 2.5 Tc (wf) Tj 0 Tc ET"
    page = f"{below} BT /F4 10 Tf 90.27 780 Td (or a key) Tj ET " + write_lines(PROSE, 60, 740, font="F4")
    assert read_drawn(page).text.startswith("below for a key\n")


def test_letters_set_apart_stay_one_word() -> None:
    letters = "".join(f"BT /F1 10 Tf {60 + 10 * place} 780 Td ({letter}) Tj ET " for place, letter in enumerate("GATE"))
    kerned = "BT /F1 10 Tf 60 760 Td (ponto) Tj ET BT /F1 10 Tf 86.4 760 Td (on) Tj ET "
    assert "pontoon" in read_drawn(letters + kerned + write_lines(PROSE, 60, 720)).text


@pytest.mark.parametrize(
    ("reason", "drawn"),
    [
        ("same_colour", write_text("unseen words", 60, 500, before="1 1 1 rg")),
        ("same_colour", "q 0 0 1 rg 50 490 200 30 re f Q " + write_text("unseen words", 60, 500, before="0 0 1 rg")),
        ("tiny", write_text("unseen words", 60, 500, size=0.6)),
        ("off_page", write_text("unseen words", 60, -300)),
        ("off_page", write_text("unseen words", 900, 500)),
        ("transparent", write_text("unseen words", 60, 500, before="3 Tr")),
        ("covered", write_text("unseen words", 60, 500) + "q 0 0 1 rg 50 490 200 30 re f Q "),
        ("covered", write_text("unseen words", 60, 500) + "q 1 1 1 rg 1 0 0 1 40 480 cm 0 0 300 60 re f* Q "),
        ("covered", write_text("unseen words", 60, 500) + "q 200 0 0 40 50 480 cm /I Do Q "),
        ("clipped", write_text("unseen words", 60, 500, before="0 0 100 100 re W n")),
        ("clipped", write_text("unseen words", 60, 500, before="50 490 200 30 re W n 0 0 0 0 re W n")),
    ],
)
def test_text_that_a_person_does_not_see_is_marked(reason: str, drawn: str) -> None:
    document = read_below(drawn)
    assert list_hidden(document) == [("unseen words", reason)]


@pytest.mark.parametrize(
    "drawn",
    [
        write_text("seen words", 60, 500),
        "q 0 0 0 rg 50 490 200 30 re f Q " + write_text("seen words", 60, 500, before="1 1 1 rg"),
        "q 595 0 0 842 0 0 cm /I Do Q " + write_text("seen words", 60, 500, before="3 Tr"),
        "q 200 0 0 200 0 400 cm /I Do Q " + write_text("seen words", 60, 500, before="1 1 1 rg"),
        write_text("seen words", 60, 500) + "q 0 0 1 rg 50 490 m 250 490 l 150 700 l f Q ",
        write_text("seen words", 60, 500) + "q 0 0 1 rg 50 490 20 30 re f Q ",
        write_text("seen words", 60, 500) + "q 0 0 9 9 re W n 0 0 1 rg 50 490 200 30 re f Q ",
        write_text("seen words", 60, 500) + "q 50 490 200 30 re S Q ",
        write_text("seen words", 60, 500) + "q 595 0 0 842 0 0 cm /I Do Q ",
        write_text("seen words", 60, 500) + "q /G gs 1 1 0 rg 50 490 200 30 re f Q ",
        write_text("seen words", 60, 500) + "q /H gs 1 1 0 rg 50 490 200 30 re f Q ",
        write_text("seen words", 60, 500) + "q 200 0 0 40 50 480 cm /M Do Q ",
        write_text("seen words", 60, 500, before="50 490 200 30 re W n"),
    ],
)
def test_text_that_a_person_sees_or_that_was_recognised_is_not_hidden(drawn: str) -> None:
    document = read_below(drawn)
    assert document.hidden == ()
    assert "seen words" in document.text


def test_hidden_symbols_of_drawings_are_not_recorded_but_scattered_letters_are() -> None:
    symbols = write_text(".", 60, 500, before="1 1 1 rg") + write_text("|x", 900, 450)
    assert read_below(symbols).hidden == ()
    letters = "".join(write_text(letter, 60 + 20 * place, 500, size=0.6) for place, letter in enumerate("unseen"))
    document = read_below(letters)
    assert "".join(document.text[span.start : span.end] for span in document.hidden).count("u") == 1
