"""The reranker: its calls, and the order that it gives."""

import asyncio
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.contract.settings import AllowedLimits, SettingsPatch
from app.db.database import Database
from app.errors import InvalidInput
from app.knowledge.search.service import KnowledgeSearchService
from app.reranking import RerankServer, ResilientReranker
from app.resilience import CallPolicy
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.providers.rerank_wire import RerankWire, encode_scores, texts_of
from tests.fixtures.providers.wire import Reply
from tests.fixtures.searching import explanation_of, make_search
from tests.fixtures.services import Common
from tests.knowledge.conftest import RunJobs
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants


async def write_numbered(services: Services, tenant: Tenant, count: int) -> list[UUID]:
    """Entries that match `harbour` by their words, the first ones better."""
    texts = (f"n{n} harbour" + " filler" * n for n in range(count))
    return await write(services, tenant, *texts, language="simple")


def find(**changes: object) -> SearchQuery:
    return SearchQuery(**({"query": "harbour", "mode": "keyword", "explain": True} | changes))  # type: ignore[arg-type]


def scripted(wire: RerankWire, **scores: float) -> None:
    """The next answer has these scores for the texts that start with these words, and 0 for the others."""

    def score(text: str) -> float:
        return next((value for word, value in scores.items() if text.startswith(word)), 0.0)

    wire.script = [Reply(body=lambda r: encode_scores(r, [(at, score(text)) for at, text in enumerate(texts_of(r))]))]


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


QUERY = "order of routes"
CONTENTS = ("order order order", "routes routes routes order", "the order of routes is fixed", "nothing of it")


async def test_the_reranker_orders_the_hits_and_scores_stay_those_of_the_fusion(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, rerank_wire: RerankWire
) -> None:
    await write(services, tenant, *CONTENTS, language="simple")
    query = SearchQuery(query=QUERY, explain=True)
    fused = await services.search.search(tenant.id, query)
    result = await search.search(tenant.id, query)
    assert result[0].content == CONTENTS[2]
    assert {h.id: h.score for h in result} == {h.id: h.score for h in fused}
    assert (fused.metadata.reranked, result.metadata.reranked) == (False, True)
    assert result.metadata.degraded == []
    explained = explanation_of(result)
    assert [hit.rerank_rank for hit in explained.hits] == list(range(1, len(result) + 1))
    scores = [hit.rerank_score or 0.0 for hit in explained.hits]
    assert scores == sorted(scores, reverse=True)
    assert explained.reranker is not None
    assert (explained.reranker.name, explained.reranker.candidates) == ("cohere/m1", len(fused))
    assert explanation_of(fused).reranker is None
    (request,) = rerank_wire.requests
    assert request.body["query"] == QUERY
    assert sorted(request.body["documents"]) == sorted(hit.content for hit in fused)


async def test_a_request_or_else_the_tenant_says_whether_to_rerank(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, rerank_wire: RerankWire
) -> None:
    await write_numbered(services, tenant, 3)

    async def reranks(rerank: bool | None) -> bool:
        rerank_wire.requests.clear()
        result = await search.search(tenant.id, find(rerank=rerank))
        assert result.metadata.reranked == bool(rerank_wire.requests)
        return result.metadata.reranked

    assert [await reranks(asked) for asked in (None, True, False)] == [True, True, False]
    await services.tenants.change_settings(tenant.id, SettingsPatch(rerank=False), actor="test")
    assert [await reranks(asked) for asked in (None, False)] == [False, False]
    with pytest.raises(InvalidInput, match=r"^rerank: must not be true"):
        await reranks(True)
    await services.tenants.change_settings(tenant.id, SettingsPatch(rerank=None), actor="test")
    assert await reranks(None)


async def test_without_a_reranker_a_search_that_asks_for_one_says_so(services: Services, tenant: Tenant) -> None:
    await write_numbered(services, tenant, 3)
    plain, asked = [await services.search.search(tenant.id, find(rerank=r)) for r in (None, True)]
    assert ids(plain) == ids(asked)
    assert (plain.metadata.degraded, asked.metadata.degraded) == ([], ["reranker_unavailable"])
    assert not asked.metadata.reranked


async def test_only_the_first_candidates_are_reranked_and_the_rest_follow_in_the_fused_order(
    services: Services, tenant: Tenant, reranker: ResilientReranker, rerank_wire: RerankWire
) -> None:
    entries = await write_numbered(services, tenant, 8)
    search = make_search(services, reranker=reranker, rerank_candidates=3)
    scripted(rerank_wire, n2=0.9, n0=0.5)
    result = await search.search(tenant.id, find())
    assert ids(result) == [entries[n] for n in (2, 0, 1, 3, 4, 5, 6, 7)]
    assert [hit.rerank_rank for hit in explanation_of(result).hits] == [1, 2, 3, None, None, None, None, None]
    assert len(rerank_wire.requests[0].body["documents"]) == 3


async def test_equal_scores_keep_the_fused_order(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, rerank_wire: RerankWire
) -> None:
    entries = await write_numbered(services, tenant, 5)
    scripted(rerank_wire, n3=0.5)
    assert ids(await search.search(tenant.id, find())) == [entries[n] for n in (3, 0, 1, 2, 4)]


async def test_pages_follow_the_reranked_order_and_ask_the_server_once(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, rerank_wire: RerankWire
) -> None:
    entries = await write_numbered(services, tenant, 7)
    scripted(rerank_wire, **{f"n{n}": n / 10 for n in range(7)})
    pages: list[SearchResult] = [await search.search(tenant.id, find(limit=3))]
    while (cursor := pages[-1].metadata.next_cursor) is not None:
        pages.append(await search.search(tenant.id, find(limit=3, cursor=cursor)))
    assert [each for page in pages for each in ids(page)] == entries[::-1]
    assert len(rerank_wire.requests) == 1
    assert all(page.metadata.reranked for page in pages)
    told = [(hit.rerank_rank, hit.rerank_score) for page in pages for hit in explanation_of(page).hits]
    assert told == [(rank, (7 - rank) / 10) for rank in range(1, 8)]
    kept = await services.journal.find(tenant.id, pages[0].metadata.search_id)
    assert kept is not None
    assert [(e.rerank_rank, e.rerank_score) for e in kept.receipt.ranking] == told


async def test_boosts_multiply_the_rerankers_score(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, rerank_wire: RerankWire
) -> None:
    plain, verified = [
        (await services.entries.create(tenant.id, EntryDraft(content=text, is_verified=is_verified)))[0].id
        for text, is_verified in (("n0 harbour", False), ("n1 harbour filler", True))
    ]
    for scores, first in (
        ({"n0": 0.9, "n1": 0.7}, verified),
        ({"n0": 0.9, "n1": 0.5}, plain),
        ({"n0": 1.5, "n1": 1.0}, verified),
        ({"n0": 4.0, "n1": -4.0}, plain),
    ):
        scripted(rerank_wire, **scores)
        assert ids(await search.search(tenant.id, find(boost=["verified"])))[0] == first
        scripted(rerank_wire, **scores)
        assert ids(await search.search(tenant.id, find()))[0] == plain


async def test_an_entry_with_the_identifier_stays_above_those_that_resemble_it(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, failing_provider: FailingProvider,
    rerank_wire: RerankWire,
) -> None:  # fmt: skip
    d = failing_provider.direction
    failing_provider.vectors = {"n0 KNOW-004": d(1, 0.5), "n1 KNOW-005": d(1, 0.1), "KNOW-004": d(1, 0)}
    right, similar = await write(services, tenant, "n0 KNOW-004", "n1 KNOW-005", language="english")
    scripted(rerank_wire, n1=0.9, n0=0.1)
    result = await search.search(tenant.id, SearchQuery(query="KNOW-004"))
    assert result.metadata.reranked
    assert ids(result) == [right, similar]


async def test_diversity_follows_the_reranker(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, failing_provider: FailingProvider,
    rerank_wire: RerankWire,
) -> None:  # fmt: skip
    d = failing_provider.direction
    failing_provider.vectors = {
        "n0 harbour": d(1, 0), "n1 harbour": d(1, 0.01), "n2 harbour": d(0, 1), "harbour": d(1, 0.02)
    }  # fmt: skip
    zero, one, two = await write(services, tenant, "n0 harbour", "n1 harbour", "n2 harbour", language="simple")
    scores = {"n1": 0.9, "n0": 0.8, "n2": 0.1}
    for diversity, order in ((0.0, [one, zero, two]), (0.6, [one, two, zero])):
        scripted(rerank_wire, **scores)
        query = SearchQuery(query="harbour", diversity=diversity, similarity_threshold=0.0)
        assert ids(await search.search(tenant.id, query)) == order


async def test_why_not_names_the_rank_by_the_reranker(
    services: Services, tenant: Tenant, reranker: ResilientReranker, rerank_wire: RerankWire
) -> None:
    entries = await write_numbered(services, tenant, 4)
    search = make_search(services, reranker=reranker, rerank_candidates=3)
    scripted(rerank_wire, n2=0.9, n1=0.5)
    cut = await search.why_not(tenant.id, entries[0], find(limit=1))
    assert [(r.stage, r.detail) for r in cut.reasons] == [
        ("cut", "ranked 3 of 4 candidates; the page ends at 1"),
        ("reranker", "the reranker ranked it 3 of 3"),
    ]
    beyond = await search.why_not(tenant.id, entries[3], find(limit=1))
    assert beyond.reasons[1].detail == "not among the 3 candidates that the reranker compared"


async def test_each_search_of_a_batch_is_reranked(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, rerank_wire: RerankWire
) -> None:
    await write_numbered(services, tenant, 3)
    results = await search.search_many(tenant.id, [find(), find(rerank=False), find(limit=2)])
    assert [isinstance(r, SearchResult) and r.metadata.reranked for r in results] == [True, False, True]
    assert len(rerank_wire.requests) == 2


async def test_a_group_has_the_place_and_the_hit_of_its_passage_that_the_reranker_puts_first(
    services: Services, tenant: Tenant, search: KnowledgeSearchService, rerank_wire: RerankWire, run_jobs: RunJobs
) -> None:
    filler = "This sentence only makes the part longer, and nothing is to be found in it. " * 24
    places = ("quay", "lock", "pier")
    text = "\n\n".join(f"Part{n} is about the harbour and its {place}. {filler}" for n, place in enumerate(places))
    await services.assets.upload(tenant.id, Upload(name="parts.txt", data=text.encode()))
    await run_jobs()
    (written,) = await write(services, tenant, "n0 harbour", language="english")
    scripted(rerank_wire, Part2=0.9, n0=0.5, Part0=0.4)
    query = find(group_by="asset", limit=1)
    first = await search.search(tenant.id, query)
    (hit,) = first
    assert hit.content.startswith("Part2")
    assert hit.group is not None
    assert (hit.group.total, first.metadata.total) == (3, 2)
    assert "Part0" in hit.group.further[0].snippet
    rest = await search.search(tenant.id, find(limit=1, cursor=first.metadata.next_cursor, explain=False))
    assert ids(rest) == [written]
    assert rest[0].group is not None
    assert rest[0].group.further == []
