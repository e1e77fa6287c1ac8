"""What a search sends to a reranking server, and what it does without a usable answer."""

from __future__ import annotations

import asyncio

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.contract.settings import AllowedLimits
from app.db.database import Database
from app.knowledge.search.service import KnowledgeSearchService
from app.reranking import RerankServer, ResilientReranker
from app.resilience import CallPolicy
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.providers.rerank_wire import RerankWire, encode_scores
from tests.fixtures.providers.wire import Reply
from tests.fixtures.searching import explanation_of, make_search
from tests.fixtures.services import Common
from tests.knowledge.search.reranking.numbered import find, scripted, write_numbered
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants


BROKEN = (
    Reply(500),
    Reply(401),
    Reply(413),
    Reply(302, headers={"Location": "/cohere/rerank"}),
    Reply(body=b"{}"),
    Reply(body=lambda r: encode_scores(r, [(0, 1.0), (0, 0.5), (1, 0.1)])),
    Reply(body=lambda r: encode_scores(r, [(0, 1.0), (1, float("nan")), (2, 0.1)])),
)


async def test_a_failure_keeps_the_fused_order_and_is_reported(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, rerank_wire: RerankWire
) -> None:
    entries = await write_numbered(services, tenant, 3)
    for reply in BROKEN:
        rerank_wire.script = [reply]
        rerank_wire.requests.clear()
        result = await search.search(tenant.id, find())
        assert ids(result) == entries
        assert result.metadata.degraded == ["reranker_unavailable"]
        assert not result.metadata.reranked
        explained = explanation_of(result)
        assert explained.reranker is not None
        assert explained.reranker.failed_attempts == 1
        assert [hit.rerank_score for hit in explained.hits] == [None] * 3
        assert "/cohere/rerank" in rerank_wire.requests[0].path


async def test_a_slow_server_costs_a_bounded_time_and_then_none(
    services: Services, tenant: Tenant, rerank_wire: RerankWire
) -> None:
    server = RerankServer(f"{rerank_wire.url}/cohere/rerank", "cohere")
    slow = ResilientReranker(server, 0.1, CallPolicy(failure_threshold=1))
    search = make_search(services, reranker=slow)
    entries = await write_numbered(services, tenant, 3)
    rerank_wire.script = [Reply(silent=True) for _ in range(9)]
    for tries in (1, 0, 0):
        before = len(rerank_wire.requests)
        result = await search.search(tenant.id, find())
        assert ids(result) == entries
        assert result.metadata.degraded == ["reranker_unavailable"]
        assert (len(rerank_wire.requests) > before) == bool(tries)
    assert slow.circuit.state == "open"
    await slow.close()


async def test_no_connection_is_held_while_the_server_answers(
    services: Services, tenant: Tenant, common: Common, rerank_wire: RerankWire, reranker: ResilientReranker
) -> None:
    await write_numbered(services, tenant, 3)
    small = Database(common.database.service_dsn, pool_size=1)
    search = make_search(services, small, reranker=reranker)
    entered, may_end = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait(request: object) -> bytes:
        loop.call_soon_threadsafe(entered.set)
        asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result(60)
        return rerank_wire.good_body(request)  # type: ignore[arg-type]

    rerank_wire.script = [Reply(body=wait)]
    running = asyncio.create_task(search.search(tenant.id, find()))
    await asyncio.wait_for(entered.wait(), 60)
    async with asyncio.timeout(60):
        other = await search.search(tenant.id, find(rerank=False))
    assert len(other) == 3
    may_end.set()
    assert (await running).metadata.reranked
    await small.close()


async def test_later_pages_report_the_failure_of_the_first(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, rerank_wire: RerankWire
) -> None:
    entries = await write_numbered(services, tenant, 4)
    rerank_wire.script = [Reply(500)]
    first = await search.search(tenant.id, find(limit=2))
    second = await search.search(tenant.id, find(limit=2, cursor=first.metadata.next_cursor))
    assert [*ids(first), *ids(second)] == entries
    assert second.metadata.degraded == ["reranker_unavailable"]


async def test_long_entries_are_cut_to_their_part_that_is_nearest_to_the_query(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, rerank_wire: RerankWire
) -> None:
    late = "intro " * 2_000 + "the heron stands at the sluice " + "outro " * 2_000
    untouched = "heron of the sluice"
    await services.entries.create_many(
        tenant.id, [EntryDraft(content=late, title="Birds"), EntryDraft(content=untouched)]
    )  # both wait for their vectors
    await search.search(tenant.id, SearchQuery(query="sluice heron", mode="keyword"))
    texts = {text.split()[0]: text for text in rerank_wire.requests[0].body["documents"]}
    assert texts["heron"] == untouched
    assert texts["Birds"].startswith("Birds\n\n")
    assert "the heron stands at the sluice" in texts["Birds"]
    assert all(len(text) <= 2_000 for text in texts.values())
    assert len(rerank_wire.requests[0].body["query"]) <= 2_000


async def test_entries_that_the_filter_excludes_are_not_sent(
    services: Services, tenant: Tenant, other_tenant: Tenant, search: KnowledgeSearchService, rerank_wire: RerankWire
) -> None:  # fmt: skip
    await write(services, other_tenant, "harbour of another tenant")
    await write(services, tenant, "harbour secret", tags=["b"])
    await write(services, tenant, "harbour one", "harbour two", tags=["a"])
    await search.search(tenant.id, find(tags=["a"]))
    (request,) = rerank_wire.requests
    assert sorted(request.body["documents"]) == ["harbour one", "harbour two"]


async def test_reranked_tokens_count_and_a_used_up_quota_keeps_the_fused_order(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, rerank_wire: RerankWire
) -> None:
    entries = await write_numbered(services, tenant, 3)
    meter = services.journal.meter
    await services.journal.flush()
    before = meter.unwritten(tenant.id)
    await search.search(tenant.id, find())
    sent = sum(-(-len(text) // 4) for text in rerank_wire.requests[0].body["documents"])
    assert meter.unwritten(tenant.id) - before == sent + 3 * 2
    await services.tenants.change_limits(tenant.id, AllowedLimits(embedding_tokens_per_day=1), actor="test")
    result = await search.search(tenant.id, find())
    assert ids(result) == entries
    assert result.metadata.degraded == ["quota_exhausted"]
    hybrid = await search.search(tenant.id, find(mode="hybrid"))
    assert hybrid.metadata.degraded == ["quota_exhausted"]
    assert len(rerank_wire.requests) == 1


async def test_a_fallback_to_keywords_is_reranked_too(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, failing_provider: FailingProvider,
    rerank_wire: RerankWire,
) -> None:  # fmt: skip
    entries = await write_numbered(services, tenant, 3)
    failing_provider.down = True
    scripted(rerank_wire, n2=0.9, n1=0.5)
    result = await search.search(tenant.id, find(mode="hybrid"))
    assert result.metadata.fallback_mode
    assert result.metadata.reranked
    assert ids(result) == [entries[n] for n in (2, 1, 0)]
    rerank_wire.script = [Reply(500)]
    worst = await search.search(tenant.id, find(mode="hybrid"))
    assert worst.metadata.degraded == ["embedding_unavailable", "reranker_unavailable"]


async def test_one_candidate_or_none_needs_no_reranker(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, rerank_wire: RerankWire
) -> None:
    await write(services, tenant, "harbour")
    assert len(await search.search(tenant.id, find())) == 1
    assert len(await search.search(tenant.id, find(query="absent"))) == 0
    assert rerank_wire.requests == []
