from __future__ import annotations

import pytest

from app.documents.parsed import ParseLimits
from app.documents.readers.records import MAX_DEPTH, parse
from app.errors import UnreadableDocument

LIMITS = ParseLimits()


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
        ('\ufeff{"ä": "ö"}', "ä: ö"),
    ],
)
def test_json_becomes_lines_of_path_and_value(source: str, text: str) -> None:
    assert parse(source.encode(), LIMITS).text == text


def test_json_title_is_its_title_field() -> None:
    assert parse(b'{"title": "Guide", "a": 1}', LIMITS).title == "Guide"
    assert parse(b'{"title": ["x"]}', LIMITS).title is None
    assert parse(b'[{"title": "no"}]', LIMITS).title is None


def test_json_lines_are_records_and_a_broken_line_is_kept() -> None:
    document = parse(b'{"a": 1, "b": {"c": 2}}\r\n\n{"a": 3}\n{"a": 4, bro\n[5, 6]\n', LIMITS)
    assert document.text == 'a: 1\n\nb.c: 2\n\na: 3\n\n{"a": 4, bro\n\n5, 6'
    assert document.format == "jsonl"


def test_json_of_many_records_loses_none() -> None:
    source = "".join(f'{{"a": {number}, "b": {number}}}\n' for number in range(1_001))
    assert parse(source.encode(), LIMITS).text.split("\n\n") == [f"a: {n}\nb: {n}" for n in range(1_001)]


@pytest.mark.parametrize("source", ['{\n  // a comment\n  "a": 1,\n}', '{"a": 1', '{"a": 1} trailing'])
def test_invalid_json_is_kept_as_text(source: str) -> None:
    document = parse(source.encode(), LIMITS)
    assert (document.text, document.format) == (source, "code")


@pytest.mark.parametrize("depth", [MAX_DEPTH + 2, 100_000])
def test_json_nested_too_deeply_is_reported(depth: int) -> None:
    for source in ("[" * depth + "1" + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        with pytest.raises(UnreadableDocument, match="more than 100 levels"):
            parse(source.encode(), LIMITS)


def test_json_nested_to_the_limit_is_read() -> None:
    assert parse(("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH).encode(), LIMITS).text == "1"
