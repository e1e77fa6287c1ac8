"""Vectors from a hash of the text: reproducible, instant, without semantics."""

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np

from app.embeddings.provider import EmbeddingModel, Grasp, Vector


class MockProvider:
    """EmbeddingProvider that gives equal texts equal vectors on every machine."""

    def __init__(self, model: EmbeddingModel) -> None:
        self.model: Final = model

    async def embed_query(self, text: str) -> Vector:
        return self._embed(text)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return [self._embed(text) for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return [self._embed(text) for text in texts]

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def grasp(self, text: str) -> Grasp:
        return "words"

    async def close(self) -> None:
        return None

    def _embed(self, text: str) -> Vector:
        digest = hashlib.shake_256(text.encode("utf-8", "surrogatepass"))
        numbers = np.frombuffer(digest.digest(4 * self.model.dimensions), dtype="<u4")
        centred = numbers.astype(np.float64) - (2**31 - 0.5)  # never 0, so the vector has a length
        vector: Vector = (centred / np.linalg.norm(centred)).astype(np.float32)
        vector.setflags(write=False)
        return vector
