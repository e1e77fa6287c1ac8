"""What of a page is text in columns: not its edges, not the cells of a table, and not always from left to right."""

import pytest

from app.documents.parsed import ParseLimits
from app.documents.readers.pdf import pdfium, words
from app.documents.readers.pdf.reader import parse
from tests.documents.drawn_pdf import PROSE, read_drawn, write_drawn_pdf, write_lines, write_rule, write_text

NUMBERS = [str(number) for number in range(1, len(PROSE) + 1)]
NARROW = tuple(line[:26].rsplit(" ", 1)[0] for line in PROSE)


def crop(data: bytes, box: str) -> bytes:
    return data.replace(b"/MediaBox", f"/CropBox [{box}] /MediaBox".encode())


@pytest.mark.parametrize("edge", [write_lines(NUMBERS, 10, 700), write_text("unseen words of the printer", 60, 20)])
def test_text_outside_of_the_crop_box_is_neither_read_nor_hidden(edge: str) -> None:
    page = write_lines(PROSE, 90, 700) + edge
    document = parse(crop(write_drawn_pdf([page]), "42 42 540 800"), ParseLimits())
    assert document.text == " ".join(PROSE)
    assert not document.tables
    assert not document.hidden


def test_of_text_outside_of_the_whole_page_only_prose_is_kept_and_hidden() -> None:
    page = write_lines(PROSE, 90, 700) + write_lines(NUMBERS, -60, 700) + write_text("unseen words", 700, 690)
    document = read_drawn(page)
    assert document.text == f"{' '.join(PROSE)}\n\nunseen words"
    assert [document.text[span.start : span.end] for span in document.hidden] == ["unseen words"]


def test_printed_numbers_of_lines_are_left_out() -> None:
    document = read_drawn(write_lines(PROSE, 90, 700) + write_lines(NUMBERS, 60, 700))
    assert document.text == " ".join(PROSE)


@pytest.mark.parametrize(("lines", "offset"), [(3, 0), (len(NARROW), 0), (len(NARROW), 5)])
def test_columns_of_prose_are_not_read_as_a_table_whether_or_not_their_lines_are_level(lines: int, offset: int) -> None:
    columns = [[f"{name} {line}" for line in NARROW[:lines]] for name in ("of", "at", "in")]
    page = "".join(write_lines(column, 40 + 180 * place, 700 - place * offset) for place, column in enumerate(columns))
    document = read_drawn(page)
    assert not document.tables
    assert document.text.split() == " ".join(" ".join(column) for column in columns).split()


@pytest.mark.parametrize("levels", [(712, 708, 500), (712, 700, 500)])
def test_rules_above_and_below_columns_of_prose_make_no_table(levels: tuple[int, ...]) -> None:
    page = "".join(write_lines(NARROW, x, 690) for x in (40, 220, 400))
    page += "".join(write_rule(30, y, 560, y) for y in levels)
    document = read_drawn(page)
    assert not document.tables
    assert document.text.split() == " ".join(NARROW * 3).split()


def test_frames_around_columns_of_prose_make_no_table() -> None:
    page = "".join(write_lines(NARROW, x, 690) for x in (40, 220, 400)) + write_text("The harbour news", 40, 710)
    page += "".join(write_rule(30, y, 560, y) for y in (725, 704, 580))
    page += "".join(write_rule(x, 580, x, 725) for x in (30, 210, 390, 560))
    document = read_drawn(page)
    assert not document.tables
    assert document.text.split() == " ".join(("The harbour news", *NARROW * 3)).split()


LETTERS = ("ا", "لإ", "ن", "ت", "\ufe9f", "ي", "ة", "R", "\u064b")
"""One ligature, and one letter in the form that it has at the beginning of a word."""
PRODUCTIVITY = "الإنتاجية"


def draw_from_the_right(words: list[str], right: float, y: float) -> str:
    """Words by their letters in the order of reading, each as a text object of its own."""
    drawn = ""
    for word in words:
        right -= 6 * len(word)
        drawn += write_text(word[::-1], right, y, font="T4")
        right -= 5
    return drawn


def test_arabic_words_are_in_order_and_have_the_letters_that_people_type() -> None:
    line = ["ABCDAEFG", "AC", "H", "ABCDAEFG", "CA", "DAC", "AEC"]
    page = "".join(draw_from_the_right(line, 500, 700 - 14 * place) for place in range(4))
    document = read_drawn(page, letters=LETTERS)
    assert not document.tables
    assert document.text == " ".join(["الإنتاجية ان R الإنتاجية نا تان اجن"] * 4)
    assert PRODUCTIVITY in document.text


@pytest.mark.parametrize(
    ("emitted", "ascends", "word"), [("نفسلا", True, "السفن"), ("السفن", False, "السفن"), ("A1", True, "A1")]
)
def test_an_arabic_word_that_pdfium_gives_from_the_left_is_reversed(
    monkeypatch: pytest.MonkeyPatch, emitted: str, ascends: bool, word: str
) -> None:
    """In lines of browsers that have numbers; PDFium reverses the letters of all others."""

    def read_boxes(page: int, places: range) -> list[float]:
        lefts = [10.0 * (place if ascends else len(places) - place) for place in places]
        return [number for left in lefts for number in (left, 8.0, left + 9, 0.0)]

    monkeypatch.setattr(pdfium, "read_boxes", read_boxes)
    assert words.read_right_to_left(0, emitted, 0)[0] == word


def test_columns_of_arabic_begin_at_the_right() -> None:
    page = "".join(draw_from_the_right(["AC", "CA", "CAC", "ACA"], 260, 700 - 14 * place) for place in range(9))
    page += "".join(draw_from_the_right(["DC", "CD", "CDC", "DCD"], 560, 700 - 14 * place) for place in range(9))
    document = read_drawn(page, letters=LETTERS)
    assert document.text.index("تن نت") < document.text.index("ان نا")
    assert not document.tables
