"""The part of an entry that is worth showing, and which of the query's words are in it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

from Stemmer import Stemmer

from app.knowledge.languages import SNOWBALL

SNIPPET_LENGTH = 240
WORD = re.compile(r"\w+(?:[-._/:]\w+)*")
PART = re.compile(r"[^\W_]+")

_stemmers = threading.local()


@dataclass(frozen=True, slots=True)
class Snippet:
    """Plain text of at most 240 characters, with … where it is cut, and the query's words that the entry has."""

    text: str
    matched_terms: tuple[str, ...]


def make_snippet(
    title: str | None,
    content: str,
    language: str,
    query: str,
    lexemes: Collection[str],
    passage: tuple[int, int] | None,
) -> Snippet:
    """Choose the window of `content` with most of the query's words; without any, the start of `passage`.

    `lexemes` are the query's, as Postgres stemmed them for `language`; `passage` is the stretch of the content
    nearest in meaning (None when only words found the entry).
    """
    stem = _stemmer(language)
    wanted = set(lexemes)
    terms: dict[str, str] = {}
    for word in PART.findall(query):
        key = stem(word.lower())
        if key in wanted:
            terms.setdefault(key, word.lower())
    positions: list[tuple[int, int, str]] = []
    found: set[str] = set()
    for match in PART.finditer(content):
        key = stem(match[0].lower())
        if key in terms:
            positions.append((match.start(), match.end(), key))
            found.add(key)
    found.update(key for key in (stem(w.lower()) for w in PART.findall(title or "")) if key in terms)
    matched = tuple(word for key, word in terms.items() if key in found)
    start = _best_start(positions, passage)
    return Snippet(_cut(content, start), matched)


def _best_start(positions: list[tuple[int, int, str]], passage: tuple[int, int] | None) -> int:
    """Where the window with most different words starts; the earliest of equals, those in the passage first."""
    best, best_key = (passage[0] if passage else 0), (0, False, 0)
    room = SNIPPET_LENGTH - 60
    right = 0
    window: dict[str, int] = {}
    for left, (start, _end, _key) in enumerate(positions):
        while right < len(positions) and positions[right][1] - start <= room:
            window[positions[right][2]] = window.get(positions[right][2], 0) + 1
            right += 1
        inside = passage is not None and passage[0] <= start < passage[1]
        key = (len(window), inside, right - left)
        if key > best_key:
            best, best_key = start, key
        if right > left:
            leaving = positions[left][2]
            window[leaving] -= 1
            if not window[leaving]:
                del window[leaving]
        else:
            right = left + 1
    return best


def _cut(content: str, start: int) -> str:
    """At most 240 characters around `start`, cut between words, with white space folded."""
    begin = max(0, start - 40)
    if begin > 0:
        space = content.rfind(" ", max(0, begin - 15), begin + 1)
        begin = space + 1 if space >= 0 else begin
    folded = " ".join(content[begin : begin + 4 * SNIPPET_LENGTH].split())
    prefix = "…" if content[:begin].strip() else ""
    room = SNIPPET_LENGTH - len(prefix)
    more = len(folded) > room or bool(content[begin + 4 * SNIPPET_LENGTH :].strip())
    if not more:
        return prefix + folded
    piece = folded[: room - 1]
    space = piece.rfind(" ")
    return prefix + (piece[:space] if space > room // 2 else piece) + "…"


def _stemmer(language: str) -> Callable[[str], str]:
    name = SNOWBALL.get(language)
    if name is None:
        return str
    known: dict[str, Stemmer] = _stemmers.__dict__.setdefault("known", {})
    if name not in known:
        known[name] = Stemmer(name)
    stem: Callable[[str], str] = known[name].stemWord
    return stem
