"""Token counts for models whose tokenizer is remote, and batches within a provider's limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

# Letters, digits, runs of whitespace, other characters: pieces that byte-pair tokenizers never join.
_PIECES = re.compile(r"[A-Za-z]+|[0-9]|\s+|[^\sA-Za-z0-9]")
_LETTERS_PER_TOKEN = 3
_SPECIAL_TOKENS = 2
_BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """An upper estimate of the tokens: a third of the letters, each digit and mark, each byte beyond ASCII.

    English prose has 4 to 5 letters per token, so the estimate is about 1.5 times too high. It is too low only for
    long runs of random letters (keys, encoded bytes).
    """
    return _SPECIAL_TOKENS + sum(_estimate_piece(piece) for piece in _PIECES.findall(text))


def approximate_tokens(texts: Iterable[str]) -> int:
    """Tokens by a rule of thumb, four bytes of UTF-8 each: the same for every model, and cheap to compute."""
    return sum(-(-len(t if t.isascii() else t.encode("utf-8", "replace")) // _BYTES_PER_TOKEN) for t in texts)


def _estimate_piece(piece: str) -> int:
    if piece.isspace():
        return 0 if piece == " " else len(piece)
    if piece.isascii():
        return -(-len(piece) // _LETTERS_PER_TOKEN)
    return len(piece.encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of one request: number of `texts`, and total `tokens` (None: no limit)."""

    texts: int
    tokens: int | None = None


def split_batches(texts: Sequence[str], limits: BatchLimits, count_tokens: Callable[[str], int]) -> Iterator[list[str]]:
    """Split texts into consecutive batches within the limits; a text over the token limit is a batch of one."""
    batch: list[str] = []
    tokens = 0
    for text in texts:
        size = 0 if limits.tokens is None else count_tokens(text)
        over = limits.tokens is not None and tokens + size > limits.tokens
        if batch and (over or len(batch) == limits.texts):
            yield batch
            batch, tokens = [], 0
        batch.append(text)
        tokens += size
    if batch:
        yield batch
