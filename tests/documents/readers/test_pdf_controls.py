"""Control characters that the fonts of a PDF draw: TeX's ligatures are read, and none of them marks text as hidden."""

from __future__ import annotations

import pytest

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.pdf.reader import parse
from tests.documents.drawn_pdf import PROSE, write_drawn_pdf, write_lines, write_text


def read(*drawn: str) -> ParsedDocument:
    return parse(write_drawn_pdf([write_lines(PROSE, 60, 780) + "".join(drawn)]), ParseLimits())


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
    document = read(write_text(drawn, 60, 500))
    assert document.text.endswith(f"\n\n{text}")
    assert document.hidden == ()


def test_a_bullet_of_a_font_of_symbols_begins_an_item() -> None:
    items = [
        write_text("\x0f", 60, 500 - 14 * place, font="T3")
        + write_text(f"Rule {name} of the harbour", 75, 500 - 14 * place)
        for place, name in enumerate(("one", "two"))
    ]
    assert read(*items).text.endswith("- Rule one of the harbour\n- Rule two of the harbour")


@pytest.mark.parametrize("character", ["\x10", "\x14", "\x15", "\x16", "\x1b"])
@pytest.mark.parametrize("font", ["F1", "T3"])
def test_a_control_character_does_not_end_hidden_text(character: str, font: str) -> None:
    drawn = write_text(f"{character}unseen {character} words {character}", 60, 500, before="1 1 1 rg", font=font)
    document = read(drawn)
    (span,) = document.hidden
    hidden = document.text[span.start : span.end]
    assert "unseen" in hidden
    assert "words" in hidden
    assert span.reason == "same_colour"
    assert not any(ord(each) < 32 and each != "\n" for each in document.text)


def test_code_in_a_font_without_a_name_keeps_its_lines() -> None:
    code = ("for boat in harbour", "  print boat name and berth", "done")
    document = read(write_lines(code, 60, 500, font="T3"))
    assert document.text.endswith("\n\n" + "\n".join(code))


def test_few_words_in_a_font_without_a_name_are_not_taken_for_code() -> None:
    document = read(write_lines(("of boats and", "harbours"), 60, 500, font="T3"))
    assert document.text.endswith("of boats and harbours")
