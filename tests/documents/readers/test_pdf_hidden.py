"""Text of a PDF that a person does not see is marked; the text layer of a scan is not."""

from __future__ import annotations

import pytest

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.pdf.reader import parse
from tests.documents.drawn_pdf import PROSE, write_drawn_pdf, write_lines, write_text


def read(*pages: str) -> ParsedDocument:
    return parse(write_drawn_pdf(pages), ParseLimits())


@pytest.mark.parametrize(
    ("reason", "drawn"),
    [
        ("same_colour", write_text("unseen words", 60, 500, before="1 1 1 rg")),
        (
            "same_colour",
            "q 0 0 1 rg 50 490 200 30 re f Q " + write_text("unseen words", 60, 500, before="0 0 1 rg"),
        ),
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
    document = read(write_lines(PROSE, 60, 780) + drawn)
    assert [(document.text[span.start : span.end], span.reason) for span in document.hidden] == [
        ("unseen words", reason)
    ]


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
    document = read(write_lines(PROSE, 60, 780) + drawn)
    assert document.hidden == ()
    assert "seen words" in document.text


def test_hidden_symbols_of_drawings_are_not_recorded_but_scattered_letters_are() -> None:
    symbols = write_text(".", 60, 500, before="1 1 1 rg") + write_text("|x", 900, 450)
    assert read(write_lines(PROSE, 60, 780) + symbols).hidden == ()
    letters = "".join(write_text(letter, 60 + 20 * place, 500, size=0.6) for place, letter in enumerate("unseen"))
    document = read(write_lines(PROSE, 60, 780) + letters)
    assert "".join(document.text[span.start : span.end] for span in document.hidden).count("u") == 1
