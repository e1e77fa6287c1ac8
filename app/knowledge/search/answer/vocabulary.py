"""The words of a query, found in texts in any inflected form."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

from app.knowledge.languages import find_stemmer

LATIN = [letter for letter in map(chr, range(ord("a"), 0x250)) if letter.islower()]

BLANKS = bytes(n if n > 127 or chr(n).isalnum() else ord(" ") for n in range(256))
"""A space for each ASCII character that belongs to no word."""

MOST_PLACES = 2_000
"""Places at which the words of the query are located in one text, the first ones of each word: a text can consist of
them, and finding the best window takes a microsecond for each.
"""

_WIDE = re.compile(r"[^\x00-\x7f]")
_LONG = 5_000
"""Characters from which the set of all letters takes less time than the pattern, which finds each place of a letter."""

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
        self._first = {
            variant for text in (*self.terms, *self.terms.values()) for variant in _variants(text[0])
        }
        self._keys: dict[str, str] = {}
        self._others: set[str] = set()

    def find(self, text: str) -> list[Found]:
        """Find words of the query in the text, in order."""
        lowered = text.lower()
        if len(lowered) != len(text):
            # A few letters, such as İ, become two in lowercase; they are left as they are, so that offsets stay valid.
            lowered = "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
        spaced = _space(lowered)
        # Most words are not the query's: each different one is looked at once, and only those that are get located.
        wanted = {
            word: key
            for word in set(spaced.split()) - self._others
            if (key := self._keys.get(word) or self._find_key(word)) is not None
        }
        most = max(1, MOST_PLACES // max(1, len(wanted)))
        positions = [
            (start, start + len(word), key)
            for word, key in wanted.items()
            for start in islice(_locate(word, spaced), most)
        ]
        positions.sort()
        return positions

    def _find_key(self, word: str) -> str | None:
        stem = self._stem(word) if word[0] in self._first else None
        if stem in self.terms:
            self._keys[word] = stem
            return stem
        self._others.add(word)
        return None


def _space(text: str) -> str:
    """The text between two spaces, with a space for each character that belongs to no word: only letters and digits do.

    A regular expression takes five times as long.
    """
    if not text.isascii():
        for wide in set(text if len(text) > _LONG else _WIDE.findall(text)):
            if not wide.isalnum():
                text = text.replace(wide, " ")
    spaced = text.encode(errors="surrogatepass").translate(BLANKS).decode(errors="surrogatepass")
    return f" {spaced} "


def _locate(word: str, spaced: str) -> Iterator[int]:
    """Where a word starts in the text that `_space` was given."""
    between = f" {word} "
    start = spaced.find(between)
    while start >= 0:
        yield start
        start = spaced.find(between, start + len(word) + 1)


@lru_cache(maxsize=256)
def _variants(letter: str) -> str:
    """The letter, and all Latin letters that differ from it only by an accent."""
    plain = _without_accent(letter)
    return letter + "".join(other for other in LATIN if _without_accent(other) == plain)


def _without_accent(letter: str) -> str:
    return unicodedata.normalize("NFD", letter)[0]
