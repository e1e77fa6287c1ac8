"""Several queries in one call: the same vectors as one by one, with the same cache and protection."""

from __future__ import annotations

import numpy as np
import pytest

from app.embeddings.factory import ProviderConfig, build_provider
from app.embeddings.resilience import QueryCache, ResiliencePolicy, ResilientProvider
from app.errors import EmbeddingUnavailable
from app.resilience import Timing
from tests.fixtures.providers.scripted import FakeClock, ScriptedProvider
from tests.fixtures.providers.wire import WireServer

QUESTIONS = ["where is the harbour", "who opens the gate", "where is the harbour", "why"]


@pytest.mark.parametrize("kind", ["local", "mock"])
async def test_queries_in_one_call_have_the_same_vectors_as_alone(kind: str) -> None:
    provider = build_provider(ProviderConfig(kind=kind, cache_entries=0))
    together = await provider.embed_queries(QUESTIONS)
    for question, vector in zip(QUESTIONS, together, strict=True):
        np.testing.assert_array_equal(vector, await provider.embed_query(question))
    await provider.close()


@pytest.mark.parametrize("kind", ["openai", "gemini"])
async def test_a_remote_provider_gets_one_request_for_all_queries(kind: str, wire: WireServer) -> None:
    if kind == "gemini":
        pytest.importorskip("google.genai", reason="the extra `gemini` is not installed")
    address = wire.url + ("/v1" if kind == "openai" else "")
    provider = build_provider(ProviderConfig(kind=kind, dimensions=16, api_key="key", base_url=address))
    together = await provider.embed_queries(QUESTIONS)
    assert [request.texts for request in wire.requests] == [list(dict.fromkeys(QUESTIONS))]
    if kind == "gemini":
        assert {item["taskType"] for item in wire.requests[0].body["requests"]} == {"RETRIEVAL_QUERY"}
    np.testing.assert_array_equal(together[0], together[2])
    alone = await provider.embed_query("why")
    np.testing.assert_array_equal(alone, together[3])
    assert len(wire.requests) == 1
    await provider.close()


async def test_the_cache_requests_only_missing_vectors() -> None:
    inner = ScriptedProvider()
    cache = QueryCache(inner, clock=FakeClock())
    known = await cache.embed_query("why")
    vectors = await cache.embed_queries(QUESTIONS)
    assert inner.queries == ["why", "where is the harbour", "who opens the gate"]
    assert vectors[3] is known
    assert not vectors[0].flags.writeable
    assert (cache.hits, cache.misses) == (2, 3)
    await cache.embed_queries(QUESTIONS)
    assert len(inner.queries) == 3


async def test_the_cache_keeps_nothing_from_a_failed_call() -> None:
    inner = ScriptedProvider(EmbeddingUnavailable("mock", "down"))
    cache = QueryCache(inner, clock=FakeClock())
    with pytest.raises(EmbeddingUnavailable):
        await cache.embed_queries(QUESTIONS)
    await cache.embed_queries(QUESTIONS)
    assert len(inner.queries) == 6


async def test_queries_in_one_call_are_one_call_to_retries_and_circuit() -> None:
    clock = FakeClock()
    inner = ScriptedProvider(*[EmbeddingUnavailable("mock", "down") for _ in range(4)])
    provider = ResilientProvider(inner, ResiliencePolicy(failure_threshold=2), Timing(clock, clock.sleep, lambda: 0.0))
    with pytest.raises(EmbeddingUnavailable) as caught:
        await provider.embed_queries(["a", "b"])
    assert caught.value.attempts == 3
    assert len(inner.queries) == 6
    assert [len(v) for v in await provider.embed_queries(["a", "b"])] == [8, 8]
    inner.failures = [EmbeddingUnavailable("mock", "down") for _ in range(7)]
    for _ in range(2):
        with pytest.raises(EmbeddingUnavailable):
            await provider.embed_queries(["a", "b"])
    assert provider.query_circuit.state == "open"
    with pytest.raises(EmbeddingUnavailable) as refused:
        await provider.embed_queries(["a", "b"])
    assert refused.value.attempts == 0
