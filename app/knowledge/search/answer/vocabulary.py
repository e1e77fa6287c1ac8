"""The words of a query, found in texts in any inflected form."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import TypeAlias

from app.knowledge.languages import find_stemmer

LATIN = [letter for letter in map(chr, range(ord("a"), 0x250)) if letter.islower()]

Found: TypeAlias = tuple[int, int, str]
"""A word of the query in a text: its start, its end, and its stem."""


class Vocabulary:
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
        # The test that no letter precedes comes second, so that the scan for the first letters is a fast one.
        self._candidates = re.compile(rf"{letters}(?<![^\W_].)[^\W_]*")
        self._keys: dict[str, str | None] = {}

    def find(self, text: str) -> list[Found]:
        """Find words of the query in the text, in order."""
        lowered = text.lower()
        if len(lowered) != len(text):
            # A few letters, such as İ, become two in lowercase; they are left as they are, so that offsets stay valid.
            lowered = "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
        positions: list[Found] = []
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
