"""Words and code of a PDF: letters set apart, words divided by gaps, and fonts for code."""

from __future__ import annotations

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.pdf.reader import parse
from tests.documents.drawn_pdf import PROSE, write_drawn_pdf, write_lines, write_text


def read(*pages: str) -> ParsedDocument:
    return parse(write_drawn_pdf(pages), ParseLimits())


def test_word_divided_by_a_gap_is_one_word() -> None:
    lines = write_lines(["The harbour office sends a list of all its free ber-"], 60, 780)
    document = read(lines + write_lines(["ths to the guests of the other harbours."], 60, 740))
    assert "all its free berths to the guests" in document.text


def test_address_in_a_font_for_code_does_not_make_its_paragraph_code() -> None:
    address = "https://harbour.example/berths/list"
    drawn = write_lines(PROSE[:2], 60, 780)
    drawn += write_text("see ", 60, 756) + write_text(address, 80, 756, font="F3")
    document = read(drawn + write_lines(PROSE[2:], 60, 744))
    assert f"when the last boat see {address} has left." in document.text


def test_code_keeps_its_lines_and_indentation() -> None:
    code = ["def open(gate):", "    if gate.free:", "        gate.open()"]
    page = write_lines(PROSE, 60, 780)
    for place, line in enumerate(code):
        stripped = line.lstrip()
        page += write_text(stripped, 60 + 6 * (len(line) - len(stripped)), 660 - 12 * place, font="F3")
    assert "\n".join(code) in read(page).text


def test_space_between_letters_of_one_text_object_is_read() -> None:
    # As in files of groff: the end of a word and the beginning of the next are one text object with spaced letters.
    below = "BT /F4 10 Tf 60 780 Td (belo) Tj ET BT /F4 10 Tf 77.22 780 Td 2.5 Tc (wf) Tj 0 Tc ET"
    page = f"{below} BT /F4 10 Tf 90.27 780 Td (or a key) Tj ET " + write_lines(PROSE, 60, 740, font="F4")
    assert read(page).text.startswith("below for a key\n")


def test_letters_set_apart_stay_one_word() -> None:
    letters = "".join(f"BT /F1 10 Tf {60 + 10 * place} 780 Td ({letter}) Tj ET " for place, letter in enumerate("GATE"))
    kerned = "BT /F1 10 Tf 60 760 Td (ponto) Tj ET BT /F1 10 Tf 86.4 760 Td (on) Tj ET "
    assert "pontoon" in read(letters + kerned + write_lines(PROSE, 60, 720)).text
