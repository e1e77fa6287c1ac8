"""The pages of a search."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import astuple
from typing import Any
from uuid import uuid4

import pytest

from app.contract.search import SearchQuery
from app.knowledge.search.receipts import mark_search
from tests.api.notes import add_notes
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_fields, expect_problem
from tests.fixtures.http.limits import allow
from tests.fixtures.providers.failing import FailingProvider


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


async def test_later_pages_continue_the_first_search(admin: Caller, provider: FailingProvider) -> None:
    await add_notes(admin, 12)
    first = await admin.search("harbour", limit=4, mode="keyword")
    await admin.add("harbour " * 40)
    provider.down = True
    second = await admin.search("harbour", limit=4, mode="keyword", cursor=first["metadata"]["next_cursor"])
    assert not {h["id"] for h in first["results"]} & {h["id"] for h in second["results"]}
    assert all(hit["content"].startswith("Note") for hit in second["results"])


async def test_the_page_of_a_fallback_is_marked_as_one(admin: Caller, provider: FailingProvider) -> None:
    await add_notes(admin, 6)
    provider.down = True
    first = await admin.search("harbour", limit=4)
    provider.down = False
    second = await admin.search("harbour", limit=4, cursor=first["metadata"]["next_cursor"])
    assert second["metadata"]["fallback_mode"] is True
    assert second["metadata"]["degraded"] == ["embedding_unavailable"]
    assert len(second["results"]) == 2


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


def write_cursor(offset: int = 5) -> str:
    """The cursor of a search that never existed."""
    return urlsafe_b64encode(uuid4().bytes + offset.to_bytes(4)).decode().rstrip("=")


async def test_the_cursor_of_an_unknown_search_is_answered_410(admin: Caller) -> None:
    answer = await admin.post("/knowledge/search", {"query": "harbour", "cursor": write_cursor()})
    expect_problem(answer, 410)


async def test_the_cursor_of_another_tenant_is_answered_410(admin: Caller, stranger: Caller) -> None:
    await add_notes(admin, 6)
    cursor = (await admin.search("harbour", limit=2))["metadata"]["next_cursor"]
    answer = await stranger.post("/knowledge/search", {"query": "harbour", "cursor": cursor})
    expect_problem(answer, 410)
    assert (await admin.search("harbour", limit=2, cursor=cursor))["results"]


@pytest.mark.parametrize("cursor", ["", "x", "é", "=" * 20, "A" * 201, "AAAA", "\x00" * 27, "A" * 40])
async def test_a_malformed_cursor_is_refused(admin: Caller, cursor: str) -> None:
    expect_fields(await admin.post("/knowledge/search", {"query": "harbour", "cursor": cursor}), "cursor")
