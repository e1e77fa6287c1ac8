"""The models of the library fastembed, on onnxruntime: from a folder, or downloaded into one.

A model in the subfolder that has the last part of its name is loaded as it is, without a network.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from fastembed import TextEmbedding
from fastembed.rerank.cross_encoder import TextCrossEncoder
from loguru import logger
from tokenizers import Tokenizer

from app.embeddings.provider import EmbeddingModel, Grasp, Vector
from app.embeddings.resilience import ComputeLanes
from app.errors import ConfigurationError
from app.kernel import count_cores

Loaded = TypeVar("Loaded", TextEmbedding, TextCrossEncoder)

# Its messages about downloads would be lines of another form in the log.
logger.disable("fastembed")


def load(kind: Callable[..., Loaded], setting: str, name: str, folder: Path) -> Loaded:
    """Load a model. Raises ConfigurationError that names the setting if there is none, or it cannot be read."""
    own = folder / name.rsplit("/", maxsplit=1)[-1]
    place: dict[str, Any] = {"specific_model_path": str(own)} if own.is_dir() else {"cache_dir": str(folder)}
    known = {each["model"].lower() for each in kind.list_supported_models()}  # type: ignore[attr-defined]  # of both
    if name.lower() not in known:
        raise ConfigurationError(setting, f"fastembed has no model {name!r}", "choose one of its list of models")
    try:
        # Texts run side by side instead: as fast, and each core has an owner.
        return kind(name, threads=1, providers=["CPUExecutionProvider"], **place)
    except Exception as error:  # the library, the runtime and the download have errors of their own
        remedy = f"put its files into {own}, or let this machine reach huggingface.co"
        raise ConfigurationError(setting, f"{name} cannot be loaded ({type(error).__name__})", remedy) from error


class FastembedProvider:
    """EmbeddingProvider over a model of fastembed, which adds the prefixes that it has for queries and passages."""

    def __init__(self, model: EmbeddingModel, folder: Path, lanes: ComputeLanes | None = None) -> None:
        """Raises ConfigurationError."""
        self._embedding = load(TextEmbedding, "EMBEDDING_MODEL", model.name, folder)
        if self._embedding.embedding_size != model.dimensions:
            raise ConfigurationError(
                "EMBEDDING_DIMENSIONS", f"{model.name} has {self._embedding.embedding_size}, not {model.dimensions}"
            )
        own: Tokenizer = self._embedding.model.tokenizer  # type: ignore[attr-defined]  # of the class that it has
        limit = (own.truncation or {}).get("max_length", model.max_tokens)
        self._counting = Tokenizer.from_str(own.to_str())
        self._counting.no_truncation()
        self._counting.no_padding()
        self._unknown = getattr(own.model, "unk_token", None)
        cores = count_cores()
        self._lanes = lanes or ComputeLanes(query_threads=max(2, cores), document_threads=cores)
        self.query_threads: Final = self._lanes.query_threads
        self.model: Final = replace(model, max_tokens=min(model.max_tokens, limit))

    async def embed_query(self, text: str) -> Vector:
        return await self._lanes.run_query(self._embed_query, text)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return [await self.embed_query(text) for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return await self._lanes.run_documents(self._embed_document, texts)

    def count_tokens(self, text: str) -> int:
        return len(self._counting.encode(text).ids)

    def grasp(self, text: str) -> Grasp:
        tokens = self._counting.encode(text, add_special_tokens=False).tokens
        known = [token for token in tokens if token != self._unknown]
        return "words" if len(known) == len(tokens) or any(map(str.isalnum, known)) else "nothing"

    async def close(self) -> None:
        self._lanes.close()

    # One text at a time, without padding: so one text always has one vector.

    def _embed_query(self, text: str) -> Vector:
        return _normalise(next(iter(self._embedding.query_embed([text]))))

    def _embed_document(self, text: str) -> Vector:
        return _normalise(next(iter(self._embedding.passage_embed([text]))))


def _normalise(values: object) -> Vector:
    raw = np.asarray(values, dtype=np.float32)
    vector: Vector = raw / np.linalg.norm(raw)
    vector.setflags(write=False)
    return vector


class FastembedReranker:
    """Reranker over a cross-encoder of fastembed; its scores are logits."""

    def __init__(self, name: str, folder: Path) -> None:
        """Raises ConfigurationError."""
        self.name: Final = f"fastembed/{name}"
        self._encoder = load(TextCrossEncoder, "KB_RERANKER_MODEL", name, folder)
        self._threads = ThreadPoolExecutor(count_cores(), thread_name_prefix="rerank")

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._score, query, texts)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        # A long text does not pad the others.
        return [float(next(iter(self._encoder.rerank(query, [text])))) for text in texts]
