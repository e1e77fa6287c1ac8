"""The snippet of a hit, and the words of the query that match it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from app.knowledge.languages import WORD, find_stemmer

SNIPPET_LENGTH = 240
LATIN = [letter for letter in map(chr, range(ord("a"), 0x250)) if letter.islower()]


@dataclass(frozen=True, slots=True)
class Snippet:
    """Plain text of at most 240 characters, with … where it is cut, and the words of the query in the entry."""

    text: str
    matched_terms: tuple[str, ...]


class SnippetMaker:
    """Makes the snippets of one search; stems are cached for all of its hits."""

    def __init__(self, query: str) -> None:
        self._words = [word.lower() for word in WORD.findall(query)]
        self._languages: dict[str, _Vocabulary] = {}

    def make(
        self,
        title: str | None,
        content: str,
        language: str,
        lexemes: Collection[str],
        passage: tuple[int, int] | None,
    ) -> Snippet:
        """Choose the window of `content` with the most words of the query, or the start of `passage` if it has none.

        `lexemes` are the query's words as Postgres stemmed them for `language`. `passage` is the passage with the
        highest cosine (None when only the keyword leg found the entry).
        """
        vocabulary = self._languages.get(language)
        if vocabulary is None:
            vocabulary = self._languages[language] = _Vocabulary(self._words, language, lexemes)
        if not vocabulary.terms:
            return Snippet(_cut(content, passage[0] if passage else 0), ())
        positions = vocabulary.find(content)
        found = {key for _, _, key in positions}
        if title:
            found.update(key for _, _, key in vocabulary.find(title))
        matched = tuple(word for key, word in vocabulary.terms.items() if key in found)
        return Snippet(_cut(content, _best_start(positions, passage)), matched)


class _Vocabulary:
    """Finds words of the query in texts of one language."""

    def __init__(self, words: Sequence[str], language: str, lexemes: Collection[str]) -> None:
        self._stem = find_stemmer(language)
        wanted = frozenset(lexemes)
        self.terms: dict[str, str] = {}
        for word in words:
            key = self._stem(word)
            if key in wanted:
                self.terms.setdefault(key, word)
        # Stemming changes only the end of a word and its accents, so only words with a term's first letter can match.
        first = {variant for text in (*self.terms, *self.terms.values()) for variant in _variants(text[0])}
        letters = f"[{re.escape(''.join(sorted(first)))}]" if first else "(?!)"
        self._candidates = re.compile(rf"(?<![^\W_]){letters}[^\W_]*")
        self._keys: dict[str, str | None] = {}

    def find(self, text: str) -> list[tuple[int, int, str]]:
        """Find words of the query in the text: start, end and stem of each, in order."""
        lowered = text.lower()
        if len(lowered) != len(text):
            # A few letters, such as İ, become two in lowercase; they are left as they are, so that offsets stay valid.
            lowered = "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
        positions: list[tuple[int, int, str]] = []
        for match in self._candidates.finditer(lowered):
            word = match[0]
            if word in self._keys:
                key = self._keys[word]
            else:
                stem = self._stem(word)
                key = self._keys[word] = stem if stem in self.terms else None
            if key is not None:
                positions.append((match.start(), match.end(), key))
        return positions


@lru_cache(maxsize=256)
def _variants(letter: str) -> str:
    """The letter, and all Latin letters that differ from it only by an accent."""
    plain = _without_accent(letter)
    return letter + "".join(other for other in LATIN if _without_accent(other) == plain)


def _without_accent(letter: str) -> str:
    return unicodedata.normalize("NFD", letter)[0]


def _best_start(positions: list[tuple[int, int, str]], passage: tuple[int, int] | None) -> int:
    """Where the window with the most distinct words starts; among equals one in the passage, then the earliest."""
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
    """Cut at most 240 characters around `start` between words, and collapse white space."""
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
