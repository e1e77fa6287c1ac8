"""A cache of vectors between evaluations, so that a repeated evaluation does not embed its collection again."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from app.embeddings.provider import EmbeddingProvider, Vector


class VectorCache:
    """An EmbeddingProvider that stores all vectors in a folder, with one file per model.

    For evaluations only: the cache grows without bound, and a change of a provider's code does not invalidate it;
    delete the folder then. Several processes can share it.
    """

    def __init__(self, inner: EmbeddingProvider, folder: Path) -> None:
        self._inner = inner
        self.model: Final = inner.model
        model = inner.model
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", f"{model.provider}-{model.name}-{model.dimensions}")
        self._file = sqlite3.connect(folder / f"{name}.sqlite3", timeout=30, isolation_level=None)
        self._file.execute("pragma journal_mode = wal")
        self._file.execute("pragma synchronous = off")
        self._file.execute(
            "create table if not exists vectors (text_hash blob primary key, vector blob) without rowid"
        )
        self.made = 0

    async def embed_query(self, text: str) -> Vector:
        known = self._find("query", text)
        if known is None:
            known = await self._inner.embed_query(text)
            self._keep("query", [text], [known])
        return known

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return [await self.embed_query(text) for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        found = {text: self._find("document", text) for text in texts}
        missing = [text for text, vector in found.items() if vector is None]
        if missing:
            made = await self._inner.embed_documents(missing)
            self._keep("document", missing, made)
            found.update(zip(missing, made, strict=True))
        return [vector for text in texts if (vector := found[text]) is not None]

    def count_tokens(self, text: str) -> int:
        return self._inner.count_tokens(text)

    async def close(self) -> None:
        """Close the file; the caller closes the inner provider."""
        self._file.close()

    def _find(self, kind: str, text: str) -> Vector | None:
        row = self._file.execute(
            "select vector from vectors where text_hash = ?", (_key(kind, text),)
        ).fetchone()
        return None if row is None else np.frombuffer(row[0], dtype=np.float32)

    def _keep(self, kind: str, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        self.made += len(texts)
        rows = [
            (_key(kind, t), np.asarray(v, dtype=np.float32).tobytes())
            for t, v in zip(texts, vectors, strict=True)
        ]
        self._file.execute("begin")
        self._file.executemany("insert or replace into vectors values (?, ?)", rows)
        self._file.execute("commit")


def _key(kind: str, text: str) -> bytes:
    return hashlib.sha256(f"{kind}\n{text}".encode()).digest()
