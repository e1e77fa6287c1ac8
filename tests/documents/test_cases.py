"""Files in which faults were found, read whole; they stand next to the repository, and tests elsewhere have twins."""

from pathlib import Path

import pytest

from app.documents.formats import detect_format
from app.documents.parsed import ParsedDocument, ParseLimits
from app.errors import UnsupportedMediaType

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "documents"

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="../shared/cases/documents is not there")

RUSSIAN = "Правила возврата товара: покупатель может вернуть товар в течение четырнадцати дней со дня покупки."
READ = {
    "b64_body.eml": ("eml", 0, "Dear Anna, the supplier Zephyrion will deliver the titanium brackets on 14 March."),
    "c_windows-1251.csv": ("csv", 0, f"id: 2 | text: {RUSSIAN}"),
    "control_character.md": ("markdown", 0, "A line copied from a PDF with a soft break: information."),
    "line_numbers_outside_crop.pdf": (
        "pdf",
        0,
        "a shorter term would have ruined the booksellers who had bought the older",
    ),
    "nonbmp.pdf": ("pdf", 0, "the velocity 𝑉 and the shop 𠮷 with a smile 😀 stand here"),
    "right_to_left_01.pdf": ("pdf", 0, "تعتبر البرمجة بلغة R و Pythonمن الأدوات القوية التي يمكن أن تعزز الإنتاجية"),
    "t_cp1251.txt": ("text", 0, f"{RUSSIAN}\n{RUSSIAN}"),
    "t_shift_jis.txt": ("text", 0, "返品規則：購入者は購入日から十四日以内に商品を返品することができます。"),
    "three_columns_federal_register.pdf": (
        "pdf",
        1,
        "the flight control laws would be changed to instead use inputs from two AOA sensors for MCAS activation",
    ),
}
"""The kind of each file that is read, its tables, and a sentence in it."""
REFUSED = {"tika_testKeynote.key": "files of Keynote, Numbers and Pages are not supported"}


def read(name: str) -> ParsedDocument:
    data = (CASES / name).read_bytes()
    return detect_format(data, name).read(data, ParseLimits())


@pytest.mark.parametrize(("name", "kind", "tables", "sentence"), [(name, *facts) for name, facts in READ.items()])
def test_prose_of_a_real_file_is_read_as_sentences(name: str, kind: str, tables: int, sentence: str) -> None:
    document = read(name)
    assert sentence in document.text
    assert (document.format, len(document.tables)) == (kind, tables)


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_a_file_without_a_reader_is_refused_by_name(name: str, reason: str) -> None:
    with pytest.raises(UnsupportedMediaType, match=reason):
        read(name)


def test_every_file_has_a_case() -> None:
    assert {file.name for file in CASES.iterdir()} - {"README.md"} == READ.keys() | REFUSED.keys()


def test_line_numbers_outside_of_the_page_hide_nothing() -> None:
    assert not read("line_numbers_outside_crop.pdf").hidden
