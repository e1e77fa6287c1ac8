"""The pages of a search."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any
from uuid import uuid4

import pytest

from app.knowledge.journal import PinnedRanking
from tests.api.callers import Caller
from tests.api.expectations import expect_fields, expect_problem
from tests.api.test_limits import allow
from tests.api.test_search_answer import fill
from tests.knowledge.provider import FailingProvider


@pytest.mark.parametrize(
    "request_fields", [{}, {"fusion": "score"}, {"boost": ["type"]}, {"mode": "keyword"}]
)
async def test_all_pages_together_are_one_large_page(admin: Caller, request_fields: dict[str, Any]) -> None:
    await fill(admin, 23)
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
    assert [(h["id"], h["score"], h["sources"]) for h in hits] == [
        (h["id"], h["score"], h["sources"]) for h in large
    ]


async def test_the_pages_are_those_of_the_first_search(admin: Caller, provider: FailingProvider) -> None:
    await fill(admin, 12)
    first = await admin.search("harbour", limit=4, mode="keyword")
    await admin.add("harbour " * 40)
    provider.down = True
    second = await admin.search("harbour", limit=4, mode="keyword", cursor=first["metadata"]["next_cursor"])
    assert not {h["id"] for h in first["results"]} & {h["id"] for h in second["results"]}
    assert all(hit["content"].startswith("Note") for hit in second["results"])


async def test_the_page_of_a_fallback_says_so(admin: Caller, provider: FailingProvider) -> None:
    await fill(admin, 6)
    provider.down = True
    first = await admin.search("harbour", limit=4)
    provider.down = False
    second = await admin.search("harbour", limit=4, cursor=first["metadata"]["next_cursor"])
    assert second["metadata"]["fallback_mode"] is True
    assert second["metadata"]["degraded"] == ["embedding_unavailable"]
    assert len(second["results"]) == 2


async def test_the_page_of_a_search_over_its_quota_gives_the_same_reason(
    admin: Caller, platform: Caller
) -> None:
    await fill(admin, 6)
    await allow(platform, admin, embedding_tokens_per_day=1)
    await admin.search("uses it up")
    first = await admin.search("harbour", limit=4)
    second = await admin.search("harbour", limit=4, cursor=first["metadata"]["next_cursor"])
    assert first["metadata"]["degraded"] == second["metadata"]["degraded"] == ["embedding_quota"]
    receipt = await admin.get(f"/admin/searches/{first['metadata']['search_id']}")
    assert receipt.json()["degraded"] == ["embedding_quota"]


@pytest.mark.parametrize(("fallback", "degraded"), [(True, ["embedding_unavailable"]), (False, [])])
def test_a_ranking_kept_without_a_reason_is_continued(fallback: bool, degraded: list[str]) -> None:
    kept = {"ranking": [], "search_modes_used": ["keyword"], "exact": True, "estimated_matches": 0}
    assert PinnedRanking.from_receipt({**kept, "fallback": fallback}).degraded == degraded


def write_cursor(offset: int = 5) -> str:
    """A cursor of a search that never was."""
    return urlsafe_b64encode(uuid4().bytes + offset.to_bytes(4)).decode().rstrip("=")


async def test_the_cursor_of_an_unknown_search_is_gone(admin: Caller) -> None:
    answer = await admin.post("/knowledge/search", {"query": "harbour", "cursor": write_cursor()})
    expect_problem(answer, 410)


async def test_the_cursor_of_another_tenant_is_gone(admin: Caller, stranger: Caller) -> None:
    await fill(admin, 6)
    cursor = (await admin.search("harbour", limit=2))["metadata"]["next_cursor"]
    answer = await stranger.post("/knowledge/search", {"query": "harbour", "cursor": cursor})
    expect_problem(answer, 410)
    assert (await admin.search("harbour", limit=2, cursor=cursor))["results"]


@pytest.mark.parametrize("cursor", ["", "x", "é", "=" * 20, "A" * 201, "AAAA", "\x00" * 27, "A" * 40])
async def test_a_cursor_that_is_none_is_refused(admin: Caller, cursor: str) -> None:
    expect_fields(await admin.post("/knowledge/search", {"query": "harbour", "cursor": cursor}), "cursor")
