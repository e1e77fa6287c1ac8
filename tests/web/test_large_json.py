"""Large bodies are parsed as small ones are, and other threads run in the meantime."""

import json
from typing import Any

import pytest

from app.errors import InvalidInput
from app.web import bodies
from app.web.bodies import LONGEST_TEXT, STEP, BodyBounds, parse_json, parse_large_json

BOUNDS = BodyBounds(1_000_000, 100, 100)

TEXTS = (
    b'{"entries": [{"content": "a"}, {"content": "b", "tags": ["c"]}], "more": {"d": [1, 2.5, null, true]}}',
    b' [1, [2, {"a": 3}], "x"] ',
    b'"text"',
    b"12",
    b"NaN",
    b'{"a": 1, "a": 2}',
    b'{"a": "\\ud800 \\u00e9 \\n"}',
    b'{"a": []}',
    b"{}",
    b"[]",
)
BROKEN = (
    b"",
    b"{",
    b"[",
    b'{"a": [1, 2}',
    b'{"a": [1 2]}',
    b'{"a": [1,]}',
    b'{"a": 1,}',
    b'{"a" 1}',
    b"{1: 2}",
    b"[1] 2",
    b"\xef\xbb\xbf{}",
    b'{"a": ["\x01"]}',
    b"nonsense",
    b'{"a": [nonsense]}',
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_large_body_has_the_value_of_a_small_one(text: bytes) -> None:
    assert repr(parse_large_json(text, BOUNDS)) == repr(parse_json(text, BOUNDS))


def problem(parse: Any, text: bytes) -> tuple[str, int]:
    with pytest.raises(json.JSONDecodeError) as raised:
        parse(text, BOUNDS)
    return raised.value.msg, raised.value.pos


@pytest.mark.parametrize("text", BROKEN)
def test_a_large_body_is_refused_at_the_place_of_a_small_one(text: bytes) -> None:
    assert problem(parse_large_json, text) == problem(parse_json, text)


def test_a_large_body_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(InvalidInput, match="must be UTF-8"):
        parse_large_json(b'{"a": "\xff"}', BOUNDS)


def test_other_threads_run_between_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0

    def count() -> None:
        nonlocal turns
        turns += 1

    monkeypatch.setattr(bodies, "let_others_run", count)
    monkeypatch.setattr(bodies, "TURN_SECONDS", 0.0)
    parse_large_json(b'{"entries": [%b]}' % b",".join([b"{}"] * 50), BOUNDS)
    assert turns == 50, "before each item"
    turns = 0
    parse_large_json(b'"%b"' % (b"x" * 3 * STEP), BOUNDS)
    assert turns == 3, "between the steps of the check"


@pytest.mark.parametrize("parse", [parse_json, parse_large_json])
def test_a_text_that_no_field_accepts_is_refused_unread(parse: Any) -> None:
    with pytest.raises(InvalidInput, match=f"must not contain a text of more than {LONGEST_TEXT} bytes"):
        parse(b'{"a": "%b"}' % (b"x" * (LONGEST_TEXT + 2 * STEP)), BOUNDS)
    longest = b"x" * (LONGEST_TEXT - STEP)
    assert parse(b'["%b", "%b"]' % (longest, longest), BOUNDS) == [longest.decode()] * 2
