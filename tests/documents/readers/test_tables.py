"""Tables and records: CSV, TSV, XLSX, JSON and JSON Lines."""

import csv

import pytest

from app.documents.parsed import ParseLimits
from app.documents.readers import records
from app.documents.readers.builder import TextBuilder
from app.documents.readers.office import xlsx
from app.documents.readers.records import MAX_DEPTH
from app.documents.readers.tables import are_headers, find_delimiter, parse, write_table
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
    assert parse(source, LIMITS).text == text


SHEET = [["Name", "Hours"], ["Ada", "37"], ["", ""], ["Prices", ""], ["Tea", "Size"]]


@pytest.mark.parametrize(
    ("rows", "last"),
    [
        ([*SHEET, ["Green", "2"]], ["Prices", "Tea: Green | Size: 2"]),
        (
            [*SHEET[:3], ["Kind", "Size", "Price"], ["Green", "small", "low"]],
            ["Kind: Green | Size: small | Price: low"],
        ),
        (
            [*SHEET[:3], ["Grace", "forty"], ["Mary", "fifty"]],
            ["Name: Grace | Hours: forty", "Name: Mary | Hours: fifty"],
        ),
        ([*SHEET[:3], ["Total", "77"]], ["Name: Total | Hours: 77"]),
        ([["Name", "Hours"], ["", ""], ["Grace", "40"]], ["Name: Grace | Hours: 40"]),
        ([["Name", "Hours"], ["", ""]], ["Name | Hours"]),
    ],
)
def test_second_table_of_a_sheet_has_its_own_headers(rows: list[list[str]], last: list[str]) -> None:
    builder = TextBuilder(LIMITS)
    write_table(builder, rows)
    assert builder.finish("xlsx").text.splitlines()[-len(last) :] == last


def test_csv_long_row_has_a_line_for_each_value() -> None:
    source = f"name,story\nAda,{'long ' * 200}\nGrace,short"
    text = parse(source, LIMITS).text
    assert text == f"name: Ada\nstory: {('long ' * 200).strip()}\n\nname: Grace | story: short"


def test_csv_of_many_rows_loses_none() -> None:
    rows = "".join(f"{number},x{number}\n" for number in range(1_001))
    lines = parse(f"id,name\n{rows}", LIMITS).text.split("\n")
    assert lines == [f"id: {number} | name: x{number}" for number in range(1_001)]


@pytest.mark.parametrize(
    ("sample", "delimiter"),
    [("a,b\n1,2\n", ","), ("a;b\n1,5;2,5\n", ";"), ("a\tb, c\n1\t2\n", "\t"), ("a|b\n1|2\n", "|"), ("a\nb\n", ",")],
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


def test_xlsx_cell_that_spans_rows_stands_in_each_of_them() -> None:
    values = [("Team", "Person"), ("Harbour", "Ada"), ("", "Ben"), ("", ""), ("", "Cleo"), ("Quay", "Dan")]
    rows = "".join(
        f'<row r="{row}">{text_cell(f"B{row}", team)}{text_cell(f"C{row}", person)}</row>'
        for row, (team, person) in enumerate(values, start=3)
    )
    spans = '<mergeCells><mergeCell ref="B4:B7"/><mergeCell ref="A1:XFD1048576"/></mergeCells>'
    lines = xlsx.parse(write_raw_xlsx(rows, rest=spans), LIMITS).text.splitlines()
    assert lines[-4:] == [
        "Team: Harbour | Person: Ada",
        "Team: Harbour | Person: Ben",
        "Team: Harbour | Person: Cleo",
        "Team: Quay | Person: Dan",
    ]


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
    parse("a,b\n1,2\n", LIMITS)
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            '{"name": "kb", "port": 8000, "scripts": {"test": "pytest", "lint": {"fix": true}}, "last": null}',
            "name: kb\nport: 8000\n\nscripts.test: pytest\nscripts.lint.fix: true\n\nlast: null",
        ),
        (
            '{"users": [{"name": "Ada", "tags": ["a", "b"]}, {"name": "Grace", "home": {"city": "NYC"}}]}',
            "users.name: Ada\nusers.tags: a, b\n\nusers.name: Grace\nusers.home.city: NYC",
        ),
        (
            '{"id": 12345678901234567890, "price": 1.10, "big": 1e400}',
            "id: 12345678901234567890\nprice: 1.10\nbig: 1e400",
        ),
        ('["a", "b"]', "a, b"),
        ("[[1, 2], [3]]", "1, 2\n\n3"),
        ('{"empty": "", "none": [], "nothing": {}, "a": 1}', "a: 1"),
        ('{"text": "two\\nlines"}', "text: two\nlines"),
        ('{"source": ["def f():\\n", "    return 1\\n"]}', "source:\ndef f():\n    return 1"),
        ('{"twice": 1, "twice": 2}', "twice: 1\ntwice: 2"),
        ('{"lone": "a\\ud800b"}', "lone: ab"),
        ('{"ä": "ö"}', "ä: ö"),
    ],
)
def test_json_becomes_lines_of_path_and_value(source: str, text: str) -> None:
    assert records.parse(source, LIMITS).text == text


def test_json_title_is_its_title_field() -> None:
    assert records.parse('{"title": "Guide", "a": 1}', LIMITS).title == "Guide"
    assert records.parse('{"title": ["x"]}', LIMITS).title is None
    assert records.parse('[{"title": "no"}]', LIMITS).title is None


def test_json_lines_are_records_and_a_broken_line_is_kept() -> None:
    document = records.parse('{"a": 1, "b": {"c": 2}}\r\n\n{"a": 3}\n{"a": 4, bro\n[5, 6]\n', LIMITS)
    assert document.text == 'a: 1\n\nb.c: 2\n\na: 3\n\n{"a": 4, bro\n\n5, 6'
    assert document.format == "jsonl"


def test_json_of_many_records_loses_none() -> None:
    source = "".join(f'{{"a": {number}, "b": {number}}}\n' for number in range(1_001))
    assert records.parse(source, LIMITS).text.split("\n\n") == [f"a: {n}\nb: {n}" for n in range(1_001)]


@pytest.mark.parametrize("source", ['{\n  // a comment\n  "a": 1,\n}', '{"a": 1', '{"a": 1} trailing'])
def test_invalid_json_is_kept_as_text(source: str) -> None:
    document = records.parse(source, LIMITS)
    assert (document.text, document.format) == (source, "code")


@pytest.mark.parametrize("depth", [MAX_DEPTH + 2, 100_000])
def test_json_nested_too_deeply_is_reported(depth: int) -> None:
    for source in ("[" * depth + "1" + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        with pytest.raises(UnreadableDocument, match="more than 100 levels"):
            records.parse(source, LIMITS)


def test_json_nested_to_the_limit_is_read() -> None:
    assert records.parse(("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH), LIMITS).text == "1"
