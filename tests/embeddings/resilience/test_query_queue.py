"""Queries that wait for their tenant's turn at a model in this process."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

import pytest

from app.embeddings.provider import Vector
from app.embeddings.resilience import QueryQueue, ResiliencePolicy, ResilientProvider, asking_tenant
from app.errors import EmbeddingUnavailable
from app.resilience import CallBudget
from tests.fixtures.providers.scripted import ScriptedProvider

CROWD, OTHER = uuid4(), uuid4()


def ask(queue: QueryQueue, tenant: UUID, text: str) -> asyncio.Task[Vector]:
    async def embed() -> Vector:
        asking_tenant.set(tenant)
        return await queue.embed_query(text)

    return asyncio.create_task(embed())


async def test_tenants_take_turns() -> None:
    inner = ScriptedProvider()
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


async def test_only_the_tenant_that_floods_the_queue_is_refused() -> None:
    inner = ScriptedProvider()
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


async def test_a_flood_leaves_half_of_the_places_to_other_tenants() -> None:
    inner = ScriptedProvider()
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


async def test_queries_of_one_call_keep_their_order_and_their_place() -> None:
    inner = ScriptedProvider()
    queue = QueryQueue(inner, places=1, patience=10)
    vectors = await queue.embed_queries(["a", "b", "c"])
    assert inner.queries == ["a", "b", "c"]
    assert [v.tolist() for v in vectors] == [(await inner.embed_query(t)).tolist() for t in "abc"]


async def test_a_query_that_is_cancelled_while_it_waits_frees_its_place() -> None:
    inner = ScriptedProvider()
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
