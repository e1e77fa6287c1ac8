"""Find the words of a query in texts, in any inflected form."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from app.knowledge.languages import find_stemmer
from app.knowledge.words import (
    COMBINING,
    MARK,
    RUN,
    find_matched_parts,
    fold,
    has_part,
    is_run,
    regularize,
    split_run,
    unify,
)

BLANKS = bytes(n if n > 127 or chr(n).isalnum() else ord(" ") for n in range(256))
"""A space for each ASCII character that belongs to no word."""

MOST_PLACES = 2_000
"""Places at which the words of the query are located in one text, the first ones of each word: a text can consist of
them, and finding the best window takes a microsecond for each.
"""

PREFIXED = frozenset(("arabic", "indonesian", "irish", "tamil", "yiddish"))
"""Languages whose stemmers remove prefixes."""

FIRST_OF_RUNS = "\u0e01"

INSIDE = frozenset(COMBINING + "\u200c\u200d")
"""Characters of words that are neither letters nor digits."""

_WIDE = re.compile(r"[^\x00-\x7f]")
_LONG = 5_000
"""Characters from which the set of all letters takes less time than the pattern, which finds each place of a letter."""

Found: TypeAlias = tuple[int, int, str]
"""A word of the query in a text: its start, its end, and its stem."""


class Vocabulary:
    """Finds words of the query in texts of one language."""

    def __init__(self, words: Sequence[str], language: str, lexemes: Collection[str]) -> None:
        lexemes = frozenset(lexemes)  # a query can have ten thousand, and Postgres returns them as a list
        self._stem = find_stemmer(language)
        self._keys: dict[str, str] = {}
        self._pairs: dict[str, str] = {}
        self._runs = tuple(dict.fromkeys(word for word in words if is_run(word)))
        self.terms: dict[str, str] = {}
        for pair in (pair for run in self._runs for pair in split_run(run)):
            if (key := fold(unify(pair), language)) in lexemes:
                self._pairs |= dict.fromkeys((pair, unicodedata.normalize("NFD", pair)), key)
        for word in words:
            if not is_run(word) and (key := self._stem(word)) in lexemes:
                self.terms.setdefault(key, word)
        # Without its accent, a word begins with the same letter as its stem, unless the language has prefixes.
        self._first = frozenset(fold(text[0], "simple")[:1] for text in (*self.terms, *self.terms.values()))
        self._any_first = language in PREFIXED
        self._others: set[str] = set()

    def __bool__(self) -> bool:
        """Whether texts can have a word of the query."""
        return bool(self.terms or self._pairs)

    def find(self, text: str) -> list[Found]:
        """Find words of the query in the text, in order; a run of a script without spaces as its pairs."""
        regular = regularize(text)
        wide = _list_wide(regular)
        positions: list[Found] = []
        words = regular
        if any(letter >= FIRST_OF_RUNS for letter in wide) and RUN.search(regular):
            positions = self._find_pairs(regular)
            words = RUN.sub(lambda run: " " * len(run[0]), regular)
        spaced = _space(words, wide)
        # Most words are not in the query: each different word is checked once, and only words of the query are located.
        wanted = {
            word: key
            for word in set(spaced.split()) - self._others
            if (key := self._keys.get(word) or self._find_key(word)) is not None
        }
        most = max(1, MOST_PLACES // max(1, len(wanted)))
        positions += [
            (start, start + len(word), key)
            for word, key in wanted.items()
            for start in islice(_locate(word, spaced), most)
        ]
        positions.sort()
        return positions

    def list_matched(self, found: Sequence[tuple[str, Sequence[Found]]]) -> tuple[str, ...]:
        """The words of the query that texts have, each with what `find` found in it; of runs, the longest parts."""
        keys = {key for _, positions in found for _, _, key in positions}
        matched = [word for key, word in self.terms.items() if key in keys]
        if self._pairs:
            pairs = frozenset(self._pairs.values())
            parts: set[str] = set()
            for text, positions in found:
                places = [(start, end) for start, end, key in positions if key in pairs]
                parts |= find_matched_parts(self._runs, text, places)
            longest = [part for part in parts if not any(part != other and has_part(other, part) for other in parts)]
            matched += sorted(longest, key="\n".join(self._runs).find)
        return tuple(matched)

    def _find_pairs(self, text: str) -> list[Found]:
        most = max(1, MOST_PLACES // max(1, len(self._pairs)))
        return [
            (start, start + len(pair), key)
            for pair, key in self._pairs.items()
            for start in islice(_locate_pair(pair, text), most)
        ]

    def _find_key(self, word: str) -> str | None:
        first = word[0]
        if not first.isascii():
            first = fold(unify(first).lower(), "simple")[:1]
        if self._any_first or first in self._first:
            stem = self._stem(word)
            if stem not in self.terms and not word.isascii():
                stem = self._stem(fold(unify(word).lower(), "simple"))  # as `plain_lexemes` in SQL
            if stem in self.terms:
                self._keys[word] = stem
                return stem
        self._others.add(word)
        return None


def _list_wide(text: str) -> Collection[str]:
    """The characters of a text beyond ASCII."""
    return () if text.isascii() else set(text if len(text) > _LONG else _WIDE.findall(text))


def _space(text: str, wide: Collection[str]) -> str:
    """The text between two spaces, with a space for each character other than letters, digits and marks.

    A regular expression takes five times as long.
    """
    for letter in wide:
        if not letter.isalnum() and letter not in INSIDE:
            text = text.replace(letter, " ")
    spaced = text.encode(errors="surrogatepass").translate(BLANKS).decode(errors="surrogatepass")
    return f" {spaced} "


def _locate_pair(pair: str, text: str) -> Iterator[int]:
    """Where a pair of characters starts in the text, with no other mark after it."""
    start = text.find(pair)
    while start >= 0:
        if not MARK.match(text, start + len(pair)):
            yield start
        start = text.find(pair, start + 1)


def _locate(word: str, spaced: str) -> Iterator[int]:
    """Where a word starts in the text that `_space` was given."""
    between = f" {word} "
    start = spaced.find(between)
    while start >= 0:
        yield start
        start = spaced.find(between, start + len(word) + 1)
