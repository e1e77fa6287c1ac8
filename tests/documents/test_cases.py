"""Files in which faults were found, read whole; they stand next to the repository, and tests elsewhere have twins."""

from pathlib import Path

import pytest

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.pdf.reader import parse

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "documents"

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="../shared/cases/documents is not there")


def read(name: str) -> ParsedDocument:
    return parse((CASES / name).read_bytes(), ParseLimits())


@pytest.mark.parametrize(
    ("name", "tables", "sentence"),
    [
        (
            "line_numbers_outside_crop.pdf",
            0,
            "a shorter term would have ruined the booksellers who had bought the older",
        ),
        ("right_to_left_01.pdf", 0, "تعتبر البرمجة بلغة R و Pythonمن الأدوات القوية التي يمكن أن تعزز الإنتاجية"),
        (
            "three_columns_federal_register.pdf",
            1,
            "the flight control laws would be changed to instead use inputs from two AOA sensors for MCAS activation",
        ),
    ],
)
def test_prose_of_a_real_page_is_read_as_sentences(name: str, tables: int, sentence: str) -> None:
    document = read(name)
    assert sentence in document.text
    assert len(document.tables) == tables


def test_line_numbers_outside_of_the_page_hide_nothing() -> None:
    assert not read("line_numbers_outside_crop.pdf").hidden
