"""Recognised lines become text in reading order."""

from __future__ import annotations

import pytest

from app.documents.ocr.layout import Found, arrange, straighten
from tests.documents.ocr.pages import found

LEFT = [f"left column, line {n}" for n in range(6)]
RIGHT = [f"right column, line {n}" for n in range(6)]


def columns(angle: float = 0) -> list[Found]:
    right = [found(text, 460, 104 + 30 * n, 390, angle=angle) for n, text in enumerate(RIGHT)]
    left = [found(text, 20, 100 + 30 * n, 400, angle=angle) for n, text in enumerate(LEFT)]
    return right + left


@pytest.mark.parametrize("angle", [0, 2, -2])
def test_two_columns_are_read_one_after_the_other_under_their_heading(angle: float) -> None:
    heading = found("A heading over both columns", 20, 20, 800, height=28, angle=angle)
    footer = found("A line below both columns", 20, 400, 830, angle=angle)
    text = arrange(straighten([footer, *columns(angle), heading]))
    assert text == "\n\n".join(
        ["A heading over both columns", "\n".join(LEFT), "\n".join(RIGHT), "A line below both columns"]
    )


def test_three_columns_are_read_one_after_the_other() -> None:
    lines = [
        found(f"column {column} has line {n}", 20 + 300 * column, 20 + 30 * n, 270)
        for n in range(5)
        for column in range(3)
    ]
    text = arrange(straighten(lines))
    assert text.split("\n\n") == ["\n".join(f"column {c} has line {n}" for n in range(5)) for c in range(3)]


@pytest.mark.parametrize("angle", [0, 1.5])
def test_rows_of_a_table_stay_together(angle: float) -> None:
    cells = [("Level", "Meaning", "Hours")] + [(f"S{n}", f"a meaning of level {n}", f"{n} h") for n in range(5)]
    lines = [
        found(text, x, 20 + 30 * row, width, angle=angle)
        for row, texts in enumerate(cells)
        for text, (x, width) in zip(texts, ((20, 60), (120, 300), (600, 60)), strict=True)
    ]
    assert arrange(straighten(reversed(lines))) == "\n".join(" ".join(texts) for texts in cells)


def test_wide_steps_and_other_sizes_end_a_paragraph() -> None:
    lines = [
        found("1. Title", 20, 0, 200, height=40),
        *(found(f"first {n}", 20, 50 + 25 * n, 600) for n in range(3)),
        *(found(f"second {n}", 20, 150 + 25 * n, 600) for n in range(3)),
    ]
    text = arrange(straighten(lines))
    assert text == "1. Title\n\nfirst 0\nfirst 1\nfirst 2\n\nsecond 0\nsecond 1\nsecond 2"


def test_a_page_without_lines_has_no_text() -> None:
    assert arrange([]) == ""
