"""What every list of chunks must fulfil."""

import re
from collections.abc import Callable
from itertools import pairwise

from app.documents.chunking import Chunk
from app.documents.parsed import ParsedDocument


def count_framed(text: str) -> int:
    return 2 + len(re.findall(r"\w{1,5}|[^\w\s]", text))


def count_words(text: str) -> int:
    return len(text.split())


class Meter:
    """A count of tokens that adds up the characters that it counts."""

    def __init__(self, count: Callable[[str], int] = count_words) -> None:
        self.seen = 0
        self._count = count

    def __call__(self, text: str) -> int:
        self.seen += len(text)
        return self._count(text)


def check_chunks(document: ParsedDocument, chunks: list[Chunk], count: Callable[[str], int], most: int) -> None:
    covered = [False] * len(document.text)
    for index, chunk in enumerate(chunks):
        assert chunk.index == index
        assert chunk.lead + document.text[chunk.char_start : chunk.char_end] == chunk.text
        assert chunk.text.strip()
        assert count(chunk.text) <= most
        covered[chunk.char_start : chunk.char_end] = [True] * (chunk.char_end - chunk.char_start)
    assert all(seen or sign.isspace() for seen, sign in zip(covered, document.text, strict=True))
    assert all(early.char_start <= late.char_start for early, late in pairwise(chunks))
    assert all(early.char_end < late.char_end for early, late in pairwise(chunks))
