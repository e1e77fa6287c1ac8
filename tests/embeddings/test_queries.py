"""Queries of a provider: several in one call, turns between tenants, and the cache."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

import numpy as np
import pytest

from app.embeddings.factory import ProviderConfig, build_provider
from app.embeddings.provider import Vector
from app.embeddings.resilience import (
    TENANTS,
    QueryCache,
    QueryQueue,
    ResiliencePolicy,
    ResilientProvider,
    asking_tenant,
)
from app.errors import EmbeddingUnavailable
from app.resilience import CallBudget, Timing
from tests.fixtures.clock import FakeClock, settle
from tests.fixtures.providers.scripted import ScriptedProvider
from tests.fixtures.providers.wire import WireServer

QUESTIONS = ["where is the harbour", "who opens the gate", "where is the harbour", "why"]


@pytest.fixture
def inner() -> ScriptedProvider:
    return ScriptedProvider()


@pytest.fixture
def cache(inner: ScriptedProvider) -> QueryCache:
    return QueryCache(inner, clock=FakeClock())


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


async def test_the_cache_requests_only_missing_vectors(inner: ScriptedProvider, cache: QueryCache) -> None:
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


CROWD, OTHER = uuid4(), uuid4()


def ask(queue: QueryQueue, tenant: UUID, text: str) -> asyncio.Task[Vector]:
    async def embed() -> Vector:
        asking_tenant.set(tenant)
        return await queue.embed_query(text)

    return asyncio.create_task(embed())


async def test_tenants_take_turns(inner: ScriptedProvider) -> None:
    inner.gate.clear()
    queue = QueryQueue(inner, places=1, patience=10)
    asked = [ask(queue, CROWD, f"crowd {n}") for n in range(4)]
    await asyncio.sleep(0)
    asked.append(ask(queue, OTHER, "other"))
    await asyncio.sleep(0)
    inner.gate.set()
    await asyncio.gather(*asked)
    assert inner.queries[:1] == ["crowd 0"]
    assert inner.queries.index("other") <= 2


async def test_only_the_tenant_that_floods_the_queue_is_refused(inner: ScriptedProvider) -> None:
    inner.gate.clear()
    policy = ResiliencePolicy(query=CallBudget(timeout=10, first_delay=0.1), failure_threshold=1)
    resilient = ResilientProvider(inner, policy)
    queue = QueryQueue(resilient, places=1, patience=0.05)
    first, *crowd = [ask(queue, CROWD, f"crowd {n}") for n in range(8)]
    refused = await asyncio.gather(*crowd, return_exceptions=True)
    assert all(isinstance(error, EmbeddingUnavailable) and error.attempts == 0 for error in refused)
    assert resilient.query_circuit.state == "closed"
    queue._patience = 60.0  # of `other`, which must be served even if this process is slow
    other = ask(queue, OTHER, "other")
    await asyncio.sleep(0)
    inner.gate.set()
    await asyncio.gather(first, other)
    assert inner.queries == ["crowd 0", "other"]


async def test_a_flood_leaves_half_of_the_places_to_other_tenants(inner: ScriptedProvider) -> None:
    inner.gate.clear()
    queue = QueryQueue(inner, places=2, patience=10)
    crowd = [ask(queue, CROWD, f"crowd {n}") for n in range(4)]
    await asyncio.sleep(0)
    other = ask(queue, OTHER, "other")
    for _ in range(5):
        await asyncio.sleep(0)
    assert inner.queries == ["crowd 0", "other"]
    inner.gate.set()
    await asyncio.gather(*crowd, other)


async def test_queries_of_one_call_keep_their_order_and_their_place(inner: ScriptedProvider) -> None:
    queue = QueryQueue(inner, places=1, patience=10)
    vectors = await queue.embed_queries(["a", "b", "c"])
    assert inner.queries == ["a", "b", "c"]
    assert [v.tolist() for v in vectors] == [(await inner.embed_query(t)).tolist() for t in "abc"]


async def test_a_query_that_is_cancelled_while_it_waits_frees_its_place(inner: ScriptedProvider) -> None:
    inner.gate.clear()
    queue = QueryQueue(inner, places=1, patience=10)
    first, second = ask(queue, CROWD, "first"), ask(queue, OTHER, "second")
    await asyncio.sleep(0)
    for task in (second, first):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    inner.gate.set()
    async with asyncio.timeout(30):
        await ask(queue, OTHER, "third")


@contextmanager
def asking(number: int) -> Iterator[None]:
    """Queries are those of this tenant."""
    token = asking_tenant.set(UUID(int=number))
    try:
        yield
    finally:
        asking_tenant.reset(token)


@pytest.mark.parametrize("others", [0, 7, 13, 50, 500])
async def test_cache_shows_a_tenant_nothing_of_anothers_queries(
    others: int, inner: ScriptedProvider, cache: QueryCache
) -> None:
    """A tenant fills its places and counts which are left after another tenant's queries: always all."""
    with asking(1):
        for number in range(50):
            await cache.embed_query(f"mine {number}")
    with asking(2):
        for number in range(others):
            await cache.embed_query(f"other {number}")
            await cache.embed_queries([f"other {number}", f"batch {number}"])
    inner.queries.clear()
    with asking(1):
        for number in range(50):
            await cache.embed_query(f"mine {number}")
    assert inner.queries == []


async def test_cache_shares_no_call_between_tenants(inner: ScriptedProvider, cache: QueryCache) -> None:
    inner.gate.clear()
    tasks = []
    for number in (1, 2):
        with asking(number):
            tasks.append(asyncio.create_task(cache.embed_query("question")))
    await settle()
    inner.gate.set()
    await asyncio.gather(*tasks)
    assert inner.queries == ["question", "question"]


async def test_cache_keeps_the_last_tenants_within_its_bound(inner: ScriptedProvider, cache: QueryCache) -> None:
    for number in [*range(1, TENANTS + 1), 1, TENANTS + 1]:
        with asking(number):
            await cache.embed_query("question")
    inner.queries.clear()
    for number, calls in ((1, 0), (3, 0), (TENANTS + 1, 0), (2, 1)):
        with asking(number):
            await cache.embed_query("question")
        assert len(inner.queries) == calls, number


async def test_cache_answers_a_repeated_query_without_a_call(inner: ScriptedProvider, cache: QueryCache) -> None:
    first = await cache.embed_query("question")
    second = await cache.embed_query("question")
    assert np.array_equal(first, second)
    assert inner.queries == ["question"]
    assert (cache.hits, cache.misses) == (1, 1)
    assert not second.flags.writeable


async def test_cache_forgets_after_sixty_seconds() -> None:
    inner, clock = ScriptedProvider(), FakeClock()
    cache = QueryCache(inner, clock=clock)
    await cache.embed_query("question")
    clock.advance(59.9)
    await cache.embed_query("question")
    assert len(inner.queries) == 1
    clock.advance(0.1)
    await cache.embed_query("question")
    assert len(inner.queries) == 2


async def test_cache_drops_the_least_recently_used_of_more_than_fifty(
    inner: ScriptedProvider, cache: QueryCache
) -> None:
    for number in range(50):
        await cache.embed_query(f"question {number}")
    await cache.embed_query("question 0")
    await cache.embed_query("one more")
    inner.queries.clear()
    await cache.embed_query("question 0")
    await cache.embed_query("question 2")
    assert inner.queries == []
    await cache.embed_query("question 1")
    assert inner.queries == ["question 1"]


async def test_cache_keeps_no_documents_and_no_failures(inner: ScriptedProvider, cache: QueryCache) -> None:
    await cache.embed_documents(["text"])
    await cache.embed_documents(["text"])
    assert inner.batches == [["text"], ["text"]]
    inner.failures = [EmbeddingUnavailable("mock", "down")]
    with pytest.raises(EmbeddingUnavailable):
        await cache.embed_query("text")
    await cache.embed_query("text")
    assert inner.queries == ["text", "text"]


async def test_cache_shares_one_call_between_equal_queries(inner: ScriptedProvider, cache: QueryCache) -> None:
    inner.gate.clear()
    tasks = [asyncio.create_task(cache.embed_query("question")) for _ in range(4)]
    await settle()
    inner.gate.set()
    vectors = await asyncio.gather(*tasks)
    assert inner.queries == ["question"]
    assert all(np.array_equal(vectors[0], vector) for vector in vectors)
    assert (cache.hits, cache.misses) == (3, 1)


async def test_cache_shares_a_failure() -> None:
    inner = ScriptedProvider(EmbeddingUnavailable("mock", "down"))
    cache = QueryCache(inner, clock=FakeClock())
    inner.gate.clear()
    tasks = [asyncio.create_task(cache.embed_query("question")) for _ in range(3)]
    await settle()
    inner.gate.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, EmbeddingUnavailable) for outcome in outcomes)
    assert inner.queries == ["question"]


async def test_cache_caller_that_leaves_does_not_fail_other_callers(inner: ScriptedProvider, cache: QueryCache) -> None:
    inner.gate.clear()
    first = asyncio.create_task(cache.embed_query("question"))
    second = asyncio.create_task(cache.embed_query("question"))
    await settle()
    first.cancel()
    await settle()
    assert first.cancelled()
    inner.gate.set()
    assert (await second).shape == (8,)
    assert inner.cancelled == 0


async def test_cache_call_ends_when_its_last_caller_leaves(inner: ScriptedProvider, cache: QueryCache) -> None:
    inner.gate.clear()
    tasks = [asyncio.create_task(cache.embed_query("question")) for _ in range(2)]
    await settle()
    for task in tasks:
        task.cancel()
    await settle()
    assert inner.cancelled == 1
    inner.gate.set()
    await cache.embed_query("question")
    assert inner.queries == ["question", "question"]


async def test_cache_new_caller_does_not_join_a_cancelled_call(inner: ScriptedProvider, cache: QueryCache) -> None:
    inner.gate.clear()
    leaving = asyncio.create_task(cache.embed_query("question"))
    await settle()
    leaving.cancel()
    newcomer = asyncio.create_task(cache.embed_query("question"))
    await settle()
    inner.gate.set()
    assert (await newcomer).shape == (8,)


async def test_cache_close_ends_calls_and_closes_the_provider(inner: ScriptedProvider, cache: QueryCache) -> None:
    inner.gate.clear()
    task = asyncio.create_task(cache.embed_query("question"))
    await settle()
    await cache.close()
    assert inner.closed
    assert inner.cancelled == 1
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
