"""Combining marks in a row: 30 at most, as in Unicode's Stream-Safe Text Format (UAX #15).

Normalising a text takes time by the square of their number, here and in Postgres: half a minute for 100,000 marks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

MOST_MARKS = 30
MARKS_RULE = f"must have at most {MOST_MARKS} combining marks in a row"
# Marks are neither letters, digits nor spaces: only such runs can have too many.
_RUN = re.compile(rf"[^\w\s\x00-\u02ff]{{{MOST_MARKS + 1},}}")
# Voiced sound marks of halfwidth kana, which are letters until they are normalised, and what they become then.
_HALFWIDTH = {"\uff9e": "\u3099", "\uff9f": "\u309a"}
# Tibetan vowels that are not combining until they are normalised.
_TIBETAN = frozenset("\u0f73\u0f75\u0f81")


def has_excess_marks(text: str) -> bool:
    """Whether more than 30 combining marks follow one another."""
    return any(True for _ in _find_excess(text))


def drop_excess_marks(text: str) -> str:
    """The text without marks that follow thirty others."""
    kept, end = [], 0
    for first, after in _find_excess(text):
        kept.append(text[end:first])
        end = after
    return "".join([*kept, text[end:]]) if kept else text


def _find_excess(text: str) -> Iterator[tuple[int, int]]:
    """Where marks follow thirty others: the place of the first of them, and the place after the last."""
    if text.isascii():
        return
    for letter, mark in _HALFWIDTH.items():
        text = text.replace(letter, mark)
    for run in _RUN.finditer(text):
        marks = 0
        for place in range(*run.span()):
            if unicodedata.combining(text[place]) or text[place] in _TIBETAN:
                marks += 1
            else:
                if marks > MOST_MARKS:
                    yield place - marks + MOST_MARKS, place
                marks = 0
        if marks > MOST_MARKS:
            yield run.end() - marks + MOST_MARKS, run.end()
