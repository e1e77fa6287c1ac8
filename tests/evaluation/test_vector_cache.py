"""Vectors are kept between evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from app.embeddings.provider import EmbeddingModel, Vector, resolve_model
from app.embeddings.providers.mock import MockProvider
from app.evaluation.evaluation import VectorCache


class CountingProvider(MockProvider):
    """The mock provider, which records its calls and distinguishes queries from documents."""

    def __init__(self, model: EmbeddingModel | None = None) -> None:
        super().__init__(model or resolve_model("mock", dimensions=16))
        self.asked: list[str] = []

    async def embed_query(self, text: str) -> Vector:
        self.asked.append(text)
        return await super().embed_query(f"query: {text}")

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return [await self.embed_query(text) for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += texts
        return await super().embed_documents(texts)


async def test_vectors_are_computed_once_and_kept_exactly(tmp_path: Path) -> None:
    inner = CountingProvider()
    cache = VectorCache(inner, tmp_path / "vectors")
    made = await cache.embed_documents(["a", "b", "a"])
    await cache.close()

    again = VectorCache(inner, tmp_path / "vectors")
    found = await again.embed_documents(["b", "c", "a"])
    await again.close()
    assert inner.asked == ["a", "b", "c"]
    assert np.array_equal(found[0], made[1])
    assert np.array_equal(found[2], made[0])
    assert np.array_equal(made[0], made[2])
    assert (cache.made, again.made) == (2, 1)


async def test_a_query_is_not_confused_with_a_document(tmp_path: Path) -> None:
    cache = VectorCache(CountingProvider(), tmp_path)
    (document,) = await cache.embed_documents(["same"])
    query = await cache.embed_query("same")
    assert not np.array_equal(document, query)
    assert np.array_equal(query, await cache.embed_query("same"))
    await cache.close()


async def test_models_do_not_share_vectors(tmp_path: Path) -> None:
    providers = [CountingProvider(resolve_model("mock", dimensions=n)) for n in (16, 32)]
    for provider in providers * 2:
        cache = VectorCache(provider, tmp_path)
        assert (await cache.embed_query("same")).shape == (provider.model.dimensions,)
        await cache.close()
    assert [provider.asked for provider in providers] == [["same"], ["same"]]


async def test_the_cache_has_the_model_and_the_tokens_of_its_provider(tmp_path: Path) -> None:
    inner = CountingProvider()
    cache = VectorCache(inner, tmp_path)
    assert cache.model == inner.model
    assert cache.count_tokens("three short words") == inner.count_tokens("three short words")
    await cache.close()
