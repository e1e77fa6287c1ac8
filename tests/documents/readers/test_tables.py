"""Rows of CSV files and workbooks, each with its headers."""

from __future__ import annotations

import csv

import pytest

from app.documents.parsed import ParseLimits
from app.documents.readers.office import xlsx
from app.documents.readers.tables import are_headers, find_delimiter, parse
from app.errors import UnreadableDocument
from tests.documents.office import text_cell, write_raw_xlsx, write_xlsx, write_zip

LIMITS = ParseLimits()


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("name,age\nAda,36\nGrace,85\n", "name: Ada | age: 36\nname: Grace | age: 85"),
        ('name;note\nAda;"a; b\nc"\n', "name: Ada | note: a; b c"),
        ("name\tage\r\nAda\t36\r\n", "name: Ada | age: 36"),
        ("sep=|\r\nname|age\r\nAda|36", "name: Ada | age: 36"),
        ("name,,age\nAda,x,\n,,7", "name: Ada | x\nage: 7"),
        ("name,age\nAda,36,more", "name: Ada | age: 36 | more"),
        ("1,2\n3,4", "1 | 2\n3 | 4"),
        ("2024-05-01,Ada\n2024-05-02,Grace", "2024-05-01 | Ada\n2024-05-02 | Grace"),
        ("country,2023,2024\nMalta,1.5,2", "country: Malta | 2023: 1.5 | 2024: 2"),
        ("Sales of the year\n\nmonth,sum\nMay,3", "Sales of the year\nmonth: May | sum: 3"),
        ("only,headers", "only | headers"),
        ("one\ntwo\nthree", "one\ntwo\nthree"),
        ('"name" , "age"\n"Ada" , "36"', "name: Ada | age: 36"),
    ],
)
def test_csv_rows_carry_their_headers(source: str, text: str) -> None:
    assert parse(source.encode(), LIMITS).text == text


def test_csv_in_other_encodings_is_read() -> None:
    for encoding in ("utf-8-sig", "utf-16", "cp1252"):
        text = parse("Größe;Stück\nä;1\nö;2".encode(encoding), LIMITS).text
        assert text == "Größe: ä | Stück: 1\nGröße: ö | Stück: 2"


def test_csv_long_row_has_a_line_for_each_value() -> None:
    source = f"name,story\nAda,{'long ' * 200}\nGrace,short"
    text = parse(source.encode(), LIMITS).text
    assert text == f"name: Ada\nstory: {('long ' * 200).strip()}\n\nname: Grace | story: short"


def test_csv_of_many_rows_loses_none() -> None:
    rows = "".join(f"{number},x{number}\n" for number in range(1_001))
    lines = parse(f"id,name\n{rows}".encode(), LIMITS).text.split("\n")
    assert lines == [f"id: {number} | name: x{number}" for number in range(1_001)]


@pytest.mark.parametrize(
    ("sample", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2,5\n", ";"),
        ("a\tb, c\n1\t2\n", "\t"),
        ("a|b\n1|2\n", "|"),
        ("a\nb\n", ","),
    ],
)
def test_delimiter_is_the_one_that_gives_even_rows(sample: str, delimiter: str) -> None:
    assert find_delimiter(sample)[0] == delimiter


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (["Name", "Age"], True),
        (["Name", "2024"], True),
        (["Name", ""], True),
        (["2023", "2024"], False),
        (["Name", "Name"], False),
        (["Name", "1,234.50 €"], False),
        (["Name", "01.02.2024"], False),
        (["", " "], False),
        (["Name", "x" * 201], False),
    ],
)
def test_headers_are_distinguished_from_values(row: list[str], expected: bool) -> None:
    assert are_headers(row) is expected


def test_xlsx_sheets_are_headings_and_rows_carry_their_headers() -> None:
    document = xlsx.parse(write_xlsx(), LIMITS)
    assert document.text == (
        "Staff\nOur people\n"
        "Name: Ada | Since: 2020-05-17 | Hours: 37.5 | Active: TRUE\nName: Grace | Hours: 40"
        "\n\n\nPrices\nTea | 0.1\nCoffee | 3"
    )
    assert [heading.title for heading in document.headings] == ["Staff", "Prices"]
    assert document.title == "Staff list"


def test_xlsx_numbers_read_as_in_excel_and_errors_are_omitted() -> None:
    cells = "".join(
        f'<c r="{column}1"><v>{value}</v></c>'
        for column, value in zip("ABCD", ("1E+20", "0.30000000000000004", "-7", "1234567890123"), strict=True)
    )
    errors = '<c r="E1" t="e"><v>#N/A</v></c><c r="F1" t="b"><v>0</v></c>'
    text = xlsx.parse(write_raw_xlsx(f'<row r="1">{cells}{errors}</row>'), LIMITS).text
    assert text == "One\n1e+20 | 0.3 | -7 | 1234567890123 | FALSE"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (write_xlsx()[:-100], "damaged or incomplete"),
        (write_zip({"xl/workbook.xml": "<workbook/>"}), "its sheets cannot be read"),
        (write_raw_xlsx('<row r="1"><c'), "its sheets cannot be read"),
        (write_raw_xlsx('<row r="1"><c r="A1" t="s"><v>5</v></c></row>'), "its sheets cannot be read"),
        (write_raw_xlsx(f'<row r="1">{text_cell("A1", "x" * 2_000)}</row>'), "too large when unpacked"),
    ],
)
def test_unreadable_xlsx_is_reported_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableDocument, match=reason):
        xlsx.parse(data, ParseLimits(max_decompressed_bytes=2_000 if "too large" in reason else 1 << 20))


def test_a_parsed_table_leaves_the_process_wide_limit_as_it_was() -> None:
    before = csv.field_size_limit()
    parse(b"a,b\n1,2\n", LIMITS)
    assert csv.field_size_limit() == before
