"""Estimates the tokens of a text from the tokens of its words."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate

TokenCounter = Callable[[str], int]

# Words with the preceding space; a longer run of characters counts as several words.
_PIECE = re.compile(r"\s*\S{1,32}")
_CACHED_PIECES = 50_000
MOST_CHARACTERS_A_TOKEN = 12
"""Characters for each token that hardly any text exceeds."""
# If the beginning of a text is already too long, the rest is not counted. The beginning has this many characters for
# each token: as in most texts, then as in hardly any.
_CHARACTERS_A_TOKEN = (7, MOST_CHARACTERS_A_TOKEN)


@lru_cache(4)
def _cache_pieces(count_tokens: TokenCounter) -> TokenCounter:
    """Count words one by one, each once for all documents of a model: there are few, and counting is expensive."""
    frame = count_tokens("")
    return lru_cache(_CACHED_PIECES)(lambda piece: count_tokens(piece) - frame)


class _PrefixCount:
    """Adds up the tokens of a text's words. Cheap for a prefix or an extension of the last text: the splitter measures
    from its position to one possible end after another."""

    def __init__(self, count_piece: TokenCounter) -> None:
        self._count_piece = count_piece
        self._text = ""
        self._ends: list[int] = []
        self._sums: list[int] = []

    def count(self, text: str) -> int:
        if not self._text.startswith(text):
            self._read(text)
        whole = bisect_right(self._ends, len(text))
        end, total = (self._ends[whole - 1], self._sums[whole - 1]) if whole else (0, 0)
        rest = text[end:]
        return total + self._count_piece(rest) if rest and not rest.isspace() else total

    def _read(self, text: str) -> None:
        # The last word may continue in the longer text.
        known = max(0, len(self._ends) - 1) if text.startswith(self._text) else 0
        del self._ends[known:], self._sums[known:]
        pieces = _PIECE.findall(text, self._ends[-1] if known else 0)
        self._ends += accumulate(map(len, pieces), initial=self._ends.pop() if known else 0)
        self._sums += accumulate(map(self._count_piece, pieces), initial=self._sums.pop() if known else 0)
        self._text = text


def build_estimate(count_tokens: TokenCounter, max_tokens: int) -> TokenCounter:
    """Build a count by words: exact for tokenizers whose tokens never cross a space, and much cheaper."""
    frame = count_tokens("")
    words = _PrefixCount(_cache_pieces(count_tokens))

    def estimate(text: str) -> int:
        for characters in _CHARACTERS_A_TOKEN:
            if len(text) > characters * max_tokens:
                beginning = frame + words.count(text[: characters * max_tokens])
                if beginning > max_tokens:
                    return beginning
        return frame + words.count(text)

    return estimate
