"""Pages and batches of searches."""

import asyncio
import json
from dataclasses import astuple
from typing import Any
from uuid import uuid4

import pytest

from app.composition.services import Services
from app.contract.search import SearchQuery
from app.knowledge.search.journal import mark_search
from tests.api.notes import add_notes
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import allow, expect_problem, is_id
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.searching import without_times


@pytest.mark.parametrize("request_fields", [{}, {"fusion": "score"}, {"boost": ["type"]}, {"mode": "keyword"}])
async def test_all_pages_together_equal_one_large_page(admin: Caller, request_fields: dict[str, Any]) -> None:
    await add_notes(admin, 23)
    first = await admin.search("harbour", limit=5, **request_fields)
    assert first["metadata"]["total"] >= 15
    pages, page = [first], first
    while (cursor := page["metadata"]["next_cursor"]) is not None:
        page = await admin.search("harbour", limit=5, cursor=cursor)
        assert page["metadata"]["search_id"] == first["metadata"]["search_id"]
        assert page["metadata"]["total"] == first["metadata"]["total"]
        pages.append(page)
    hits = [hit for page in pages for hit in page["results"]]
    assert [len(page["results"]) for page in pages[:-1]] == [5] * (len(pages) - 1)
    assert len(hits) == first["metadata"]["total"]
    large = (await admin.search("harbour", limit=50, **request_fields))["results"][: len(hits)]
    assert [(h["id"], h["score"], h["sources"]) for h in hits] == [(h["id"], h["score"], h["sources"]) for h in large]


async def test_the_page_of_a_search_over_its_quota_gives_the_same_reason(admin: Caller, platform: Caller) -> None:
    await add_notes(admin, 6)
    await allow(platform, admin, embedding_tokens_per_day=1)
    await admin.search("uses it up")
    first = await admin.search("harbour", limit=4)
    second = await admin.search("harbour", limit=4, cursor=first["metadata"]["next_cursor"])
    assert first["metadata"]["degraded"] == second["metadata"]["degraded"] == ["quota_exhausted"]
    receipt = await admin.get(f"/admin/searches/{first['metadata']['search_id']}")
    assert receipt.json()["degraded"] == ["quota_exhausted"]


ANOTHER = "belongs to another search: send the same query and filters"
ASKED: dict[str, Any] = {"query": "harbour", "limit": 2, "tags": ["b", "a"], "metadata": {"x": 1, "y": [2]}}


async def fill_asked(admin: Caller) -> str:
    """Six entries that `ASKED` finds, and the cursor of its second page."""
    for n in range(6):
        await admin.add(f"harbour {n}", tags=["a"], metadata={"x": 1, "y": [2], "n": n})
    first = (await admin.post("/knowledge/search", ASKED)).json()
    assert first["metadata"]["total"] == 6
    cursor: str = first["metadata"]["next_cursor"]
    return cursor


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "other",
    [
        {"query": "harbours"},
        {"tags": ["nope"]},
        {"tags": ["a"]},
        {"tags_match": "all"},
        {"metadata": {"x": 1}},
        {"role": "dev"},
        {"tags": None, "metadata": None, "include_superseded": True},
    ],
)
async def test_a_cursor_of_another_search_is_refused(admin: Caller, other: dict[str, Any]) -> None:
    cursor = await fill_asked(admin)
    answer = await admin.post("/knowledge/search", {**ASKED, **other, "cursor": cursor})
    assert expect_problem(answer, 422)["errors"] == [{"field": "cursor", "message": ANOTHER}]


@pytest.mark.parametrize(
    "same",
    [
        ASKED,
        {**ASKED, "query": " harbour ", "tags": ["a", "b", "a"], "metadata": {"y": [2], "x": 1}, "limit": 3},
        {"query": "harbour", "metadata": {}, "mode": "keyword"},
    ],
)
async def test_a_cursor_continues_with_the_same_query_and_filters(admin: Caller, same: dict[str, Any]) -> None:
    cursor = await fill_asked(admin)
    page = (await admin.post("/knowledge/search", {**same, "cursor": cursor})).json()
    assert len(page["results"]) == same.get("limit", 4)


async def test_a_cursor_without_filters_keeps_those_of_its_search(admin: Caller) -> None:
    cursor = await fill_asked(admin)
    left = (await admin.search("harbour", cursor=cursor))["results"]
    await admin.patch(f"/knowledge/entries/{left[0]['id']}", {"tags": ["c"]})
    after = (await admin.search("harbour", cursor=cursor))["results"]
    assert [hit["id"] for hit in after] == [hit["id"] for hit in left[1:]]


def test_fingerprints_of_a_query_differ_between_searches() -> None:
    query = SearchQuery(query="harbour", tags=["a"], asset_id=[uuid4()])
    first, second = uuid4(), uuid4()
    assert mark_search(first, query) == mark_search(first, query)
    assert not set(astuple(mark_search(first, query))) & set(astuple(mark_search(second, query)))


async def test_a_receipt_does_not_show_the_fingerprint_of_its_search(admin: Caller) -> None:
    search_id = (await admin.search("harbour"))["metadata"]["search_id"]
    assert "asked" not in (await admin.get(f"/admin/searches/{search_id}")).json()


@pytest.mark.parametrize("fields", [{}, {"mode": "keyword", "boost": ["type"]}, {"fusion": "score"}])
async def test_later_pages_are_explained_with_what_is_known(admin: Caller, fields: dict[str, Any]) -> None:
    await add_notes(admin, 12)
    whole = (await admin.search("harbour", limit=8, explain=True, **fields))["debug_info"]
    first = await admin.search("harbour", limit=4, **fields)
    page = await admin.search("harbour", limit=4, explain=True, cursor=first["metadata"]["next_cursor"])
    told = page["debug_info"]
    assert set(told) == set(whole)
    for name in ("mode", "fusion", "weights", "rrf_k", "boost", "similarity_threshold", "model"):
        assert told[name] == whole[name]
    assert {leg: ran is None for leg, ran in told["legs"].items()} == {
        leg: ran is None for leg, ran in whole["legs"].items()
    }
    assert [hit["id"] for hit in told["hits"]] == [hit["id"] for hit in page["results"]]
    unknown = {"semantic_term", "keyword_term", "boosts", "cosine", "estimated_cosine"}
    for kept, full in zip(told["hits"], whole["hits"][4:], strict=True):
        assert set(kept) == set(full)
        assert {n: v for n, v in kept.items() if n not in unknown} == {
            n: v for n, v in full.items() if n not in unknown
        }


async def test_the_cursor_of_another_tenant_is_answered_410(admin: Caller, stranger: Caller) -> None:
    await add_notes(admin, 6)
    cursor = (await admin.search("harbour", limit=2))["metadata"]["next_cursor"]
    answer = await stranger.post("/knowledge/search", {"query": "harbour", "cursor": cursor})
    expect_problem(answer, 410)
    assert (await admin.search("harbour", limit=2, cursor=cursor))["results"]


PATH = "/knowledge/search/batch"


async def search_all(caller: Caller, *searches: Any) -> list[dict[str, Any]]:
    """The outcomes of a batch, with their form checked."""
    body = json.dumps({"searches": searches})
    answer = await caller.post(PATH, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"results"}
    outcomes: list[dict[str, Any]] = answer.json()["results"]
    assert [outcome["index"] for outcome in outcomes] == list(range(len(searches)))
    for outcome in outcomes:
        assert set(outcome) == {"index", "status", "result", "error"}
        found = outcome["status"] == 200
        assert (outcome["error"] is None, outcome["result"] is not None) == (found, found)
        assert found or outcome["error"]["status"] == outcome["status"]
    return outcomes


async def test_each_search_is_answered_as_if_sent_alone(
    admin: Caller, reader: Caller, provider: FailingProvider
) -> None:
    for word in ("harbour", "crane", "quay"):
        await admin.add(f"The {word} opens at six", tags=[word])
    searches: list[dict[str, Any]] = [
        {"query": "The harbour opens at six"},
        {"query": "crane", "mode": "keyword", "limit": 1},
        {"query": "The quay opens at six", "mode": "semantic"},
        {"query": "opens", "tags": ["crane", "quay"], "fusion": "score"},
        {"query": "zebra"},
    ]
    outcomes = await search_all(reader, *searches)
    for search, outcome in zip(searches, outcomes, strict=True):
        alone = await reader.search(**search)
        assert without_times(outcome["result"]) == without_times(alone)
    assert len({outcome["result"]["metadata"]["search_id"] for outcome in outcomes}) == len(searches)


async def test_all_texts_are_embedded_in_one_call(reader: Caller, provider: FailingProvider) -> None:
    provider.calls.clear()
    searches = [{"query": f"question {n % 20}"} for n in range(30)]
    others = [{"query": "words", "mode": "keyword"}, {"query": "vector", "query_embedding": [1.0] * 16}]
    await search_all(reader, *searches, *others)
    assert provider.calls == [[f"question {n}" for n in range(20)]]
    assert len(provider.queries) == 20


async def test_no_call_is_made_without_text_to_embed(reader: Caller, provider: FailingProvider) -> None:
    provider.calls.clear()
    await search_all(reader, {"query": "words", "mode": "keyword"}, {"query": ""})
    assert provider.calls == []


async def test_a_refused_search_does_not_affect_the_others(admin: Caller) -> None:
    await admin.add("The harbour opens at six")
    outcomes = await search_all(
        admin,
        {"query": "harbour"},
        {"query": ""},
        {"query": "harbour", "limit": 51},
        {"query": "nul \x00"},
        {"query": "lone \ud800"},
        {"query": "x", "surprise": 1, "rrf_k": 0},
        {"query": "x", "\ud800": 1},
        {"query": "x", "query_embedding": [1.0]},
        {"query": "x", "cursor": "nonsense"},
        {"query": "x", "cursor": "A" * 27},
        7,
        None,
        ["query"],
        {"query": "harbour", "mode": "keyword"},
    )
    assert [o["index"] for o in outcomes if o["status"] == 200] == [0, 13]
    fields = {o["index"]: [e["field"] for e in o["error"].get("errors", [])] for o in outcomes if o["error"]}
    assert fields[1] == fields[3] == fields[4] == ["query"]
    assert (fields[2], fields[7], fields[8]) == (["limit"], ["query_embedding"], ["cursor"])
    assert set(fields[5]) == {"surprise", "rrf_k"}
    assert outcomes[9]["status"] == 410
    for index in (0, 13):
        assert outcomes[index]["result"]["results"][0]["content"] == "The harbour opens at six"
    for outcome in outcomes:
        if outcome["error"]:
            assert outcome["error"]["request_id"]
            assert outcome["error"]["detail"]


async def test_without_the_provider_all_searches_are_keyword_only(admin: Caller, provider: FailingProvider) -> None:
    await admin.add("The harbour opens at six")
    provider.down = True
    provider.calls.clear()
    outcomes = await search_all(admin, *[{"query": f"harbour {n}"} for n in range(5)])
    assert len(provider.calls) == 1
    for outcome in outcomes:
        metadata = outcome["result"]["metadata"]
        assert (metadata["fallback_mode"], metadata["degraded"]) == (True, ["embedding_unavailable"])
        assert outcome["result"]["results"]


async def test_a_text_that_the_provider_refuses_loses_only_its_own_vector(
    admin: Caller, provider: FailingProvider
) -> None:
    provider.refused.add("refused text")
    try:
        outcomes = await search_all(admin, {"query": "refused text"}, {"query": "harbour"})
    finally:
        provider.refused.clear()
    assert [o["result"]["metadata"]["fallback_mode"] for o in outcomes] == [False, False]
    # One call for both, which was refused, and then one call for each.
    assert sorted(provider.queries) == ["harbour", "harbour", "refused text", "refused text"]


@pytest.mark.one_server
async def test_a_batch_leaves_connections_for_others(
    admin: Caller, api_services: Services, provider: FailingProvider
) -> None:
    await admin.add("The harbour opens at six")
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, api_services.database.engine.pool.checkedout())  # type: ignore[attr-defined]
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    try:
        batches = await asyncio.gather(
            *(search_all(admin, *[{"query": f"harbour {n}"} for n in range(32)]) for _ in range(2))
        )
    finally:
        watching.cancel()
    assert all(outcome["status"] == 200 for outcomes in batches for outcome in outcomes)
    assert 1 <= most <= 5


async def test_every_search_of_a_batch_has_its_receipt(admin: Caller, api_services: Services) -> None:
    outcomes = await search_all(admin, {"query": "harbour"}, {"query": "crane"}, {"query": ""})
    await api_services.journal.flush()
    for outcome in outcomes[:2]:
        search_id = outcome["result"]["metadata"]["search_id"]
        assert is_id(search_id)
        assert (await admin.get(f"/admin/searches/{search_id}")).status_code == 200


async def test_a_page_can_be_continued_in_a_batch(admin: Caller, api_services: Services) -> None:
    for n in range(4):
        await admin.add(f"harbour {n}")
    first = await admin.search("harbour", limit=2)
    (outcome,) = await search_all(admin, {"query": "harbour", "limit": 2, "cursor": first["metadata"]["next_cursor"]})
    shown = [hit["id"] for page in (first, outcome["result"]) for hit in page["results"]]
    assert len(set(shown)) == 4
    assert outcome["result"]["metadata"]["strong_match"] is first["metadata"]["strong_match"]


async def test_a_batch_finds_nothing_of_another_tenant(admin: Caller, stranger: Caller) -> None:
    added = await admin.add("The zanzibar word", tags=["zanzibar"])
    found = await admin.search("zanzibar")
    cursor = found["metadata"]["next_cursor"] or "A" * 27
    outcomes = await search_all(
        stranger,
        {"query": "zanzibar"},
        {"query": "zanzibra", "mode": "keyword"},
        {"query": "word", "asset_id": [added["id"]]},
        {"query": "word", "cursor": cursor},
    )
    assert "zanzibar" not in json.dumps(outcomes)
    assert [o["status"] for o in outcomes] == [200, 200, 200, 410]
    assert all(o["result"]["results"] == [] for o in outcomes[:3])
