"""Combining marks in a row, which would take the square of their number in time."""

from __future__ import annotations

import unicodedata
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.text import MOST_MARKS, drop_excess_marks, has_excess_marks

ALL_MARKS = [
    character
    for character in map(chr, range(0x110000))
    if not "\ud800" <= character <= "\udfff" and unicodedata.combining(unicodedata.normalize("NFKD", character)[0])
]
LONGEST = 3
"""Marks that one character becomes, at most, when it is normalised."""


def count_marks(text: str) -> int:
    """The longest row of marks in the normalised text."""
    decomposed = unicodedata.normalize("NFKD", text)
    rows = groupby(decomposed, key=lambda character: unicodedata.combining(character) > 0)
    return max((len(list(row)) for combine, row in rows if combine), default=0)


@pytest.mark.parametrize("mark", ["\u0301", "\u0301\u0316", "\u0f73", "\uff9e\u0301", "\u302e", "\U0001d165"])
def test_thirty_marks_may_follow_one_another(mark: str) -> None:
    most = (mark * MOST_MARKS)[:MOST_MARKS]
    more = f"{most}{mark}"[: MOST_MARKS + 1]
    for text in (most, f"a{most} b{most}", f"ü{most}ü", f"{most}\n{most}", f"{most}…{most}"):
        assert not has_excess_marks(text)
        assert drop_excess_marks(text) == text
    for text in (more, f"a{more}", f"a {more} b", f"…{more}…{most}"):
        assert has_excess_marks(text)
        assert drop_excess_marks(text) == text.replace(more, most)


def test_a_text_with_many_marks_is_read_in_linear_time() -> None:
    text = "a" + "\u0300\u0323" * 500_000 + "b"
    assert has_excess_marks(text)
    assert drop_excess_marks(text) == text[: 1 + MOST_MARKS] + "b"


def test_other_characters_are_not_marks() -> None:
    for text in (
        "",
        "a" * 100,
        "…" * 100,
        "漢" * 100,
        "ｶﾞ" * 100,
        "\u200d" * 100,
        "👩\u200d🚀" * 50,
        "é" * 100,
    ):
        assert not has_excess_marks(text)
        assert drop_excess_marks(text) == text


def test_every_mark_is_one() -> None:
    for mark in ALL_MARKS:
        assert has_excess_marks(mark * (MOST_MARKS + 1)), hex(ord(mark))
        assert not has_excess_marks(mark * MOST_MARKS), hex(ord(mark))


@given(st.text(st.sampled_from([*ALL_MARKS, "a", "ü", "漢", "…", " "]), max_size=300))
def test_the_rest_of_any_text_has_few_marks_in_a_row(text: str) -> None:
    rest = drop_excess_marks(text)
    assert not has_excess_marks(rest)
    assert has_excess_marks(text) == (rest != text)
    assert count_marks(rest) <= LONGEST * (MOST_MARKS + 1)
