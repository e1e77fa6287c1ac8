"""The query cache: expiry, order, shared calls, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import numpy as np
import pytest

from app.embeddings.resilience import TENANTS, QueryCache, asking_tenant
from app.errors import EmbeddingUnavailable
from tests.fixtures.providers.scripted import FakeClock, ScriptedProvider


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@contextmanager
def asking(number: int) -> Iterator[None]:
    """Queries are those of this tenant."""
    token = asking_tenant.set(UUID(int=number))
    try:
        yield
    finally:
        asking_tenant.reset(token)


@pytest.mark.parametrize("others", [0, 7, 13, 50, 500])
async def test_cache_shows_a_tenant_nothing_of_anothers_queries(others: int) -> None:
    """A tenant fills its places and counts which are left after another tenant's queries: always all."""
    inner = ScriptedProvider()
    cache = QueryCache(inner, clock=FakeClock())
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


async def test_cache_shares_no_call_between_tenants() -> None:
    inner = ScriptedProvider()
    cache = QueryCache(inner, clock=FakeClock())
    inner.gate.clear()
    tasks = []
    for number in (1, 2):
        with asking(number):
            tasks.append(asyncio.create_task(cache.embed_query("question")))
    await settle()
    inner.gate.set()
    await asyncio.gather(*tasks)
    assert inner.queries == ["question", "question"]


async def test_cache_keeps_the_last_tenants_within_its_bound() -> None:
    inner = ScriptedProvider()
    cache = QueryCache(inner, clock=FakeClock())
    for number in [*range(1, TENANTS + 1), 1, TENANTS + 1]:
        with asking(number):
            await cache.embed_query("question")
    inner.queries.clear()
    for number, calls in ((1, 0), (3, 0), (TENANTS + 1, 0), (2, 1)):
        with asking(number):
            await cache.embed_query("question")
        assert len(inner.queries) == calls, number


async def test_cache_answers_a_repeated_query_without_a_call() -> None:
    inner = ScriptedProvider()
    cache = QueryCache(inner, clock=FakeClock())
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


async def test_cache_drops_the_least_recently_used_of_more_than_fifty() -> None:
    inner = ScriptedProvider()
    cache = QueryCache(inner, clock=FakeClock())
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


async def test_cache_keeps_no_documents_and_no_failures() -> None:
    inner = ScriptedProvider()
    cache = QueryCache(inner, clock=FakeClock())
    await cache.embed_documents(["text"])
    await cache.embed_documents(["text"])
    assert inner.batches == [["text"], ["text"]]
    inner.failures = [EmbeddingUnavailable("mock", "down")]
    with pytest.raises(EmbeddingUnavailable):
        await cache.embed_query("text")
    await cache.embed_query("text")
    assert inner.queries == ["text", "text"]


async def test_cache_shares_one_call_between_equal_queries() -> None:
    inner = ScriptedProvider()
    cache = QueryCache(inner, clock=FakeClock())
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


async def test_cache_caller_that_leaves_does_not_fail_other_callers() -> None:
    inner = ScriptedProvider()
    cache = QueryCache(inner, clock=FakeClock())
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


async def test_cache_call_ends_when_its_last_caller_leaves() -> None:
    inner = ScriptedProvider()
    cache = QueryCache(inner, clock=FakeClock())
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


async def test_cache_new_caller_does_not_join_a_cancelled_call() -> None:
    inner = ScriptedProvider()
    cache = QueryCache(inner, clock=FakeClock())
    inner.gate.clear()
    leaving = asyncio.create_task(cache.embed_query("question"))
    await settle()
    leaving.cancel()
    newcomer = asyncio.create_task(cache.embed_query("question"))
    await settle()
    inner.gate.set()
    assert (await newcomer).shape == (8,)


async def test_cache_close_ends_calls_and_closes_the_provider() -> None:
    inner = ScriptedProvider()
    cache = QueryCache(inner, clock=FakeClock())
    inner.gate.clear()
    task = asyncio.create_task(cache.embed_query("question"))
    await settle()
    await cache.close()
    assert inner.closed
    assert inner.cancelled == 1
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
