from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.cutting import unwrap

LONG = "A line that has exactly forty characters"
DEFINITION = re.compile(r"^(?![#|>])(\S.{38,}[^\s.!?:|])\n(?=[^\W\d_]|[(\"'„“»])", re.M)
"""A line break inside a sentence, as one pattern; to find it, each line would be read twice."""

PARTS = st.sampled_from(
    [
        *(
            LONG[:39],
            LONG,
            "a" * 37,
            "a" * 60,
            "é",
            "word",
            "\n",
            "\n",
            "\n\n",
            " ",
            "\t",
            "\r",
            "\x1c",
            "\u00a0",
        ),
        *".!?:|#>1_\"'(„“»",
    ]
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{LONG}\nand more", f"{LONG} and more"),
        (f"{LONG}\n{LONG}\n(and more)", f"{LONG} {LONG} (and more)"),
        (f"Short\n{LONG}\nand more", f"Short\n{LONG} and more"),
        (f"{LONG}\nand more\n", f"{LONG} and more\n"),
    ],
)
def test_a_line_break_inside_a_sentence_becomes_a_space(text: str, shown: str) -> None:
    assert unwrap(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG[1:]}\nand more",
        f"{LONG}.\nand more",
        f"{LONG} |\nand more",
        f"{LONG} \nand more",
        f"{LONG}\n1 more",
        f"{LONG}\n\nand more",
        f"{LONG}\n",
        f"#{LONG}\nand more",
        f"|{LONG}\nand more",
        f">{LONG}\nand more",
        f" {LONG}\nand more",
    ],
)
def test_other_line_breaks_stay(text: str) -> None:
    assert unwrap(text) == text


@given(st.lists(PARTS, max_size=20).map("".join))
def test_the_line_breaks_are_those_of_the_definition(text: str) -> None:
    assert unwrap(text) == DEFINITION.sub(r"\1 ", text)
