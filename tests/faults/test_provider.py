"""A provider that is slow, failing, invalid or down: searches fall back to keywords."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import NewTenant, Tenant
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.db.database import Database
from app.embeddings.providers.openai import OpenAIProvider
from app.embeddings.resilience import QueryCache, ResiliencePolicy, ResilientProvider
from app.resilience import CallBudget, Circuit, CircuitState, Timing
from tests.faults.conftest import OPENAI_MODEL
from tests.faults.proxy import Fault, FaultProxy
from tests.fixtures.clock import FakeClock
from tests.fixtures.database.cluster import TestDatabase
from tests.fixtures.providers.wire import DIMENSIONS, Reply, WireServer, encode_rows

KEY = "sk-of-the-tests"
BUDGET = 0.3
HANG = 10.0
"""Time limit in seconds for a search; a search that falls back is much faster."""

POLICY = ResiliencePolicy(
    query=CallBudget(timeout=BUDGET, first_delay=0.01),
    documents=CallBudget(timeout=5.0, first_delay=0.01),
    failure_threshold=3,
    cool_down=30.0,
)
ROW = [1.0] * DIMENSIONS


def answer_with(*rows: object) -> Reply:
    return Reply(body=lambda request: encode_rows(request, list(rows)))  # type: ignore[arg-type]


ANSWERS: dict[str, Reply] = {
    "too few dimensions": answer_with(ROW[1:]),
    "too many dimensions": answer_with([*ROW, 1.0]),
    "not a number": answer_with([None, *ROW[1:]]),
    "a word": answer_with(["nan", *ROW[1:]]),
    "infinite": Reply(body=b'{"data": [{"index": 0, "embedding": [1e999' + b", 1.0" * (DIMENSIONS - 1) + b"]}]}"),
    "without length": answer_with([0.0] * DIMENSIONS),
    "two for one": answer_with(ROW, ROW),
    "none for one": answer_with(),
    "a list": Reply(body=b"[]"),
    "other JSON": Reply(body=b'{"data": {"embedding": 1}}'),
    "a page": Reply(body=b"<html><h1>Welcome</h1></html>", headers={"Content-Type": "text/html"}),
    "nothing": Reply(body=b""),
    "half an answer": Reply(body=json.dumps({"data": [{"index": 0, "embedding": ROW}]}).encode()[:40]),
    "rate limited": Reply(429, headers={"Retry-After": "60"}),
    "rate limited without a time": Reply(429),
    "server error": Reply(500, b"<html>Internal error</html>"),
    "gateway error": Reply(502, b"<html>Bad gateway</html>"),
    "moved": Reply(301, headers={"Location": "http://127.0.0.1:9/"}),
    "key rejected": Reply(401),
    "text refused": Reply(400),
    "silent": Reply(silent=True),
}


@dataclass(frozen=True, slots=True)
class Scene:
    """Services whose provider is behind a proxy, and a tenant with one embedded entry."""

    services: Services
    tenant: Tenant
    circuit: Circuit
    clock: FakeClock

    async def search(self, text: str, mode: str = "hybrid") -> SearchResult:
        async with asyncio.timeout(HANG):
            return await self.services.search.search(self.tenant.id, SearchQuery(query=text, mode=mode))  # type: ignore[arg-type]

    def state(self) -> CircuitState:
        return self.circuit.state


@pytest.fixture
async def scene(
    openai_database: TestDatabase, provider_proxy: FaultProxy, request: pytest.FixtureRequest
) -> AsyncIterator[Scene]:
    clock = FakeClock()
    raw = OpenAIProvider(OPENAI_MODEL, api_key=KEY, base_url=f"http://127.0.0.1:{provider_proxy.port}/v1")
    policy = getattr(request, "param", POLICY)
    resilient = ResilientProvider(raw, policy, Timing(clock, clock.sleep))
    # One connection: a search that held it during a provider call would block all others.
    database = Database(openai_database.service_dsn, pool_size=1)
    services = await build_services(database, QueryCache(resilient))
    tenant = await services.tenants.create(NewTenant(f"faults-{next(NUMBERS)}"), actor="test")
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content="The harbour opens at six"))
    assert entry.embedding_status == "ready"
    yield Scene(services, tenant, resilient.query_circuit, clock)
    await services.close()
    await resilient.close()
    await database.close()


NUMBERS = count(1)


def assert_keyword_fallback(found: SearchResult) -> None:
    assert [hit.content for hit in found.results] == ["The harbour opens at six"]
    assert found.metadata.fallback_mode
    assert found.metadata.degraded == ["embedding_unavailable"]
    assert found.metadata.search_modes_used == ["keyword"]
    assert found.results[0].similarity is None


async def test_a_working_provider_is_used(scene: Scene) -> None:
    found = await scene.search("harbour")
    assert not found.metadata.fallback_mode
    assert found.metadata.degraded == []
    assert found.metadata.search_modes_used == ["semantic", "keyword"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "answer",
    # The default run takes every fifth case.
    [pytest.param(name, marks=[pytest.mark.slow] if number % 5 else []) for number, name in enumerate(ANSWERS)],
)
async def test_an_invalid_embedding_response_falls_back_to_keywords(
    scene: Scene, wire: WireServer, answer: str
) -> None:
    wire.script = [ANSWERS[answer]] * 20
    assert_keyword_fallback(await scene.search("harbour"))
    assert_keyword_fallback(await scene.search("the harbour", mode="semantic"))
    wire.script.clear()
    if answer == "silent":
        wire.stopping.set()
    assert not (await scene.search("harbour opens")).metadata.fallback_mode


@pytest.mark.parametrize("fault", [pytest.param("delay", marks=pytest.mark.slow), "reset", "black hole"])
async def test_a_failing_connection_falls_back_to_keywords(
    scene: Scene, provider_proxy: FaultProxy, fault: Fault
) -> None:
    provider_proxy.delay = HANG
    provider_proxy.fault = fault
    assert_keyword_fallback(await scene.search("harbour"))
    assert_keyword_fallback(await scene.search("the harbour", mode="semantic"))
    provider_proxy.fault = "none"
    assert not (await scene.search("harbour opens")).metadata.fallback_mode


async def test_a_stopped_provider_causes_keyword_fallback_until_it_returns(
    scene: Scene, provider_proxy: FaultProxy
) -> None:
    await provider_proxy.refuse()
    assert_keyword_fallback(await scene.search("harbour"))
    await provider_proxy.listen()
    assert not (await scene.search("the harbour")).metadata.fallback_mode


async def test_the_circuit_opens_while_a_provider_is_down_and_closes_when_it_returns(
    scene: Scene, wire: WireServer
) -> None:
    wire.script = [Reply(503)] * 100
    for number in range(POLICY.failure_threshold):
        assert_keyword_fallback(await scene.search(f"harbour {number}"))
    assert scene.state() == "open"
    asked = len(wire.requests)
    for number in range(20):
        assert_keyword_fallback(await scene.search(f"the harbour {number}"))
    assert len(wire.requests) == asked
    # One probe after the pause fails, and so does the fixed text: the pause begins again.
    scene.clock.advance(POLICY.cool_down)
    assert_keyword_fallback(await scene.search("harbour probe"))
    assert_keyword_fallback(await scene.search("harbour again"))
    assert len(wire.requests) == asked + 2
    wire.script.clear()
    scene.clock.advance(POLICY.cool_down)
    assert not (await scene.search("harbour returns")).metadata.fallback_mode
    assert scene.state() == "closed"


@pytest.mark.parametrize("scene", [ResiliencePolicy(query=CallBudget(60.0, 0.01))], indirect=True)
async def test_keyword_searches_do_not_wait_for_the_provider(
    scene: Scene, provider_proxy: FaultProxy, wire: WireServer
) -> None:
    provider_proxy.fault = "black hole"
    waiting = [asyncio.create_task(scene.search(f"harbour {number}")) for number in range(8)]
    while provider_proxy.open < 8:  # noqa: ASYNC110 (the proxy has no event for it)
        await asyncio.sleep(0.01)
    asked = len(wire.requests)
    for _ in range(30):
        found = await scene.search("harbour", mode="keyword")
        assert [hit.content for hit in found.results] == ["The harbour opens at six"]
        assert found.metadata.degraded == []
    # All these requests ran on the one connection while eight searches waited for the provider.
    assert not any(task.done() for task in waiting)
    assert len(wire.requests) == asked
    provider_proxy.fault = "none"
    assert not any(found.metadata.fallback_mode for found in await asyncio.gather(*waiting))


async def test_an_entry_written_while_the_provider_is_down_gets_its_vector_later(
    scene: Scene, wire: WireServer
) -> None:
    wire.script = [Reply(500)] * 100
    entry, _ = await scene.services.entries.create(scene.tenant.id, EntryDraft(content="The lighthouse is red"))
    assert entry.embedding_status == "pending"
    assert [hit.id for hit in (await scene.search("lighthouse", mode="keyword")).results] == [entry.id]
    wire.script.clear()
    assert await scene.services.embedder.embed_all(scene.tenant.id)
    assert (await scene.services.entries.get(scene.tenant.id, entry.id)).embedding_status == "ready"
    found = await scene.search("The lighthouse is red", mode="semantic")
    assert found.results[0].id == entry.id
