"""Joins lines: words that a line break split, and lines of one sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from app.documents.readers.pdf.lines import meets_unspaced
from app.documents.readers.text import clean_text

_LINE_BREAK = re.compile(r"\b(\w++)[-\u2010\u00ad][ \t]*\n(\w++)")
# PDFium writes the hyphen at the end of a line as U+0002 or U+FFFE and continues on the same line.
_MARKED_BREAK = re.compile("(?<=\\w)[\x02\ufffe](?:\r?\n)?(?=\\w)")
_JOINING = frozenset({"und", "oder", "bzw", "sowie", "and", "or", "et", "ou", "y", "e", "o", "en", "of"})


def join_hyphenation(text: str) -> str:
    """Rejoin words that a line break split; hyphens that belong to a word are kept."""

    def join(match: re.Match[str]) -> str:
        left, right = match.groups()
        if right.lower() in _JOINING:
            return f"{left}- {right}"
        hyphenated = f"{left}-{right}"
        if not (left[-1].islower() and right[0].islower()):
            return hyphenated
        return hyphenated if hyphenated in text and left + right not in text else left + right

    return _LINE_BREAK.sub(join, text)


def clean_plain(text: str) -> str:
    """PDFium's own text of a page, with its words rejoined."""
    return join_hyphenation(clean_text(_MARKED_BREAK.sub("-\n", text)))


def join_lines(lines: Sequence[str]) -> str:
    """One line of several."""
    if len(lines) == 1:
        return lines[0]
    joined = join_hyphenation("\n".join(lines)).split("\n")
    parts = [joined[0]]
    for left, right in pairwise(joined):
        parts.append(right if meets_unspaced(left, right) else f" {right}")
    return "".join(parts)
