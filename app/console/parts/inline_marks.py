"""Marks within a line of Markdown: emphasis, code and links, as styled pieces of its text.

The pieces are text, which the template escapes: nothing of a document becomes HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Style = Literal["plain", "code", "strong", "em", "del"]

LONGEST = 400
"""Most characters between two marks, which keeps the time for a text with many single marks linear."""

_MARKS = re.compile(
    rf"""
      (?P<fence>`{{1,4}})(?!`)(?P<code>.{{1,{LONGEST}}}?)(?<!`)(?P=fence)(?!`)
    | \*\*(?=[^\s*])(?P<strong>.{{1,{LONGEST}}}?)(?<=\S)\*\*
    | (?<![\w\\])__(?=\S)(?P<strong2>.{{1,{LONGEST}}}?)(?<=\S)__(?!\w)
    | (?<![\w*\\])\*(?=[^\s*])(?P<em>[^*]{{1,{LONGEST}}}?)(?<=\S)\*(?![\w*])
    | (?<![\w\\])_(?=[^\s_])(?P<em2>[^_]{{1,{LONGEST}}}?)(?<=\S)_(?!\w)
    | ~~(?=\S)(?P<del>.{{1,{LONGEST}}}?)(?<=\S)~~
    | !?\[(?P<link>[^\[\]]{{1,{LONGEST}}})\]\((?:[^()\s]|\([^()\s]{{0,200}}\)){{0,{LONGEST}}}(?:\s"[^"\n]{{0,200}}")?\)
    | \\(?P<escaped>[!-/:-@\[-`{{-~])
    """,
    re.VERBOSE | re.DOTALL,
)
_STYLES: dict[str, Style] = {
    "code": "code", "strong": "strong", "strong2": "strong", "em": "em", "em2": "em", "del": "del",
    "link": "plain", "escaped": "plain",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text that is shown, in a style; what no span has are marks."""

    start: int
    end: int
    style: Style


def read_marks(text: str, start: int = 0, end: int | None = None, style: Style = "plain") -> Iterator[Span]:
    """Yield the parts of a text that are shown, in order."""
    end = len(text) if end is None else end
    while match := _MARKS.search(text, start, end):
        if match.start() > start:
            yield Span(start, match.start(), style)
        name = next(name for name, value in match.groupdict().items() if value and name != "fence")
        inner = _STYLES[name]
        first, last = match.span(name)
        if name in ("code", "escaped"):
            yield Span(first, last, "code" if name == "code" else style)
        else:
            yield from read_marks(text, first, last, style if inner == "plain" else inner)
        start = match.end()
    if start < end:
        yield Span(start, end, style)
