"""Answers are bounded in bytes: pages end early, and their cursors continue."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from app.composition.services import Services
from app.db.queries.audit import write_audit
from app.knowledge.paging import PAGE_BYTES, count_within
from app.knowledge.search.service import BATCH_BYTES
from app.knowledge.tenants.admission import ANSWER_BYTES
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.limits import expect_refusal

SHIP = "\U0001f6a2"
"""Four bytes."""

LARGE = 8
ON_A_PAGE = 6
"""Of entries of 400,000 bytes: the sixth is the one with which the page has PAGE_BYTES."""


@pytest.fixture
async def filled(admin: Caller) -> Caller:
    for number in range(LARGE):
        await admin.add(f"harbour {number} " + SHIP * 99_900)
    return admin


async def search_all(caller: Caller, **query: Any) -> list[list[str]]:
    """The ids of all pages."""
    pages: list[list[str]] = []
    cursor = None
    while True:
        body = {"query": "harbour", "mode": "keyword", "limit": 50, **query, "cursor": cursor}
        answer = await caller.post("/knowledge/search", {k: v for k, v in body.items() if v is not None})
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert found["metadata"]["total"] == LARGE
        pages.append([hit["id"] for hit in found["results"]])
        if query.get("explain"):
            assert len(found["debug_info"]["hits"]) == len(pages[-1])
        cursor = found["metadata"]["next_cursor"]
        if cursor is None:
            return pages


@pytest.mark.parametrize("explain", [False, True])
async def test_a_page_of_a_search_ends_early_and_its_cursor_continues(filled: Caller, explain: bool) -> None:
    pages = await search_all(filled, explain=explain)
    assert [len(page) for page in pages] == [ON_A_PAGE, LARGE - ON_A_PAGE]
    assert len({entry for page in pages for entry in page}) == LARGE


async def test_a_page_within_the_bounds_has_its_limit(filled: Caller) -> None:
    assert [len(page) for page in await search_all(filled, limit=4)] == [4, 4]


async def test_a_deleted_hit_does_not_end_a_page(filled: Caller) -> None:
    body = {"query": "harbour", "mode": "keyword", "limit": 2}
    first = (await filled.post("/knowledge/search", body)).json()
    second = await filled.post("/knowledge/search", {**body, "cursor": first["metadata"]["next_cursor"]})
    assert (await filled.delete(f"/knowledge/entries/{second.json()['results'][1]['id']}")).status_code == 204
    again = await filled.post("/knowledge/search", {**body, "cursor": first["metadata"]["next_cursor"]})
    assert len(again.json()["results"]) == 1
    assert again.json()["metadata"]["next_cursor"] == second.json()["metadata"]["next_cursor"]


async def test_a_page_of_a_list_ends_early_and_its_cursor_continues(filled: Caller) -> None:
    first = (await filled.get("/knowledge/entries?limit=200")).json()
    rest = (await filled.get(f"/knowledge/entries?limit=200&cursor={first['next_cursor']}")).json()
    assert (len(first["items"]), len(rest["items"])) == (ON_A_PAGE, LARGE - ON_A_PAGE)
    assert rest["next_cursor"] is None
    assert len({entry["id"] for entry in first["items"] + rest["items"]}) == LARGE


async def read_pages(caller: Caller, path: str) -> list[int]:
    """The numbers of items of a list's pages."""
    counts: list[int] = []
    cursor: str | None = ""
    seen: set[str] = set()
    while cursor is not None:
        page = (await caller.get(f"{path}?limit=200{cursor and '&cursor='}{cursor}")).json()
        counts.append(len(page["items"]))
        seen |= {item["id"] for item in page["items"]}
        cursor = page["next_cursor"]
    assert len(seen) == sum(counts)
    return counts


METADATA = {"text": "x" * 60_000}
"""The database stores it in fewer bytes than an answer has."""
WITH_METADATA = -(-PAGE_BYTES // 60_000)
"""Items with it that fill a page."""


async def test_metadata_counts_with_its_length_in_the_answer(admin: Caller) -> None:
    entries = [{"content": f"harbour {n}", "metadata": METADATA} for n in range(WITH_METADATA + 1)]
    assert (await admin.post("/knowledge/entries/bulk", {"entries": entries})).status_code == 200
    assert await read_pages(admin, "/knowledge/entries") == [WITH_METADATA, 1]
    found = await admin.search("harbour", mode="keyword", limit=50)
    assert len(found["results"]) == WITH_METADATA


async def test_a_page_of_assets_ends_early(admin: Caller) -> None:
    for number in range(WITH_METADATA + 1):
        answer = await admin.upload(
            f"{number}.txt", f"The harbour {number}".encode(), "text/plain", metadata=json.dumps(METADATA)
        )
        assert answer.status_code == 202, answer.text
    assert await read_pages(admin, "/knowledge/assets") == [WITH_METADATA, 1]


async def test_a_page_of_the_audit_trail_ends_early(admin: Caller, api_services: Services) -> None:
    assert admin.tenant_id is not None
    ids = [uuid4() for _ in range(1_000)]
    filling = -(-PAGE_BYTES // (39 * len(ids)))
    async with api_services.database.tenant_session(admin.tenant_id) as session:
        for _ in range(filling + 1):
            await write_audit(session, "ada", "entry.write", ids, {})
    assert await read_pages(admin, "/admin/audit") == [filling, 1]


async def test_the_results_of_a_batch_are_bounded_together(filled: Caller) -> None:
    search = {"query": "harbour", "mode": "keyword", "limit": 50}
    small = {"query": "nothing like it", "mode": "keyword"}
    answer = await filled.post("/knowledge/search/batch", {"searches": [search] * 12 + [small]})
    assert answer.status_code == 200
    assert len(answer.content) < BATCH_BYTES + 100_000
    outcomes = answer.json()["results"]
    served = [outcome for outcome in outcomes if outcome["status"] == 200]
    assert 1 <= len(served) < 12
    for outcome in outcomes:
        if outcome["status"] != 200:
            assert outcome["status"] == 429
            assert outcome["error"]["limit"] == "answer_bytes"
            assert outcome["error"]["retry_after"] == 1


async def test_large_answers_of_a_tenant_wait_for_each_other(
    admin: Caller, stranger: Caller, api_services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    asset = (await admin.upload("a.txt", b"The harbour", "text/plain")).json()
    monkeypatch.setattr(api_services.admission, "_patience", 0.05)
    tenant = await api_services.tenants.context(admin.tenant_id or uuid4())
    batch = {"searches": [{"query": "harbour"}]}
    async with api_services.admission.answering(tenant, ANSWER_BYTES):
        expect_refusal(await admin.post("/knowledge/search/batch", batch), "answer_bytes")
        expect_refusal(await admin.get(f"/knowledge/assets/{asset['id']}/text"), "answer_bytes")
        assert (await stranger.post("/knowledge/search/batch", batch)).status_code == 200
    assert (await admin.post("/knowledge/search/batch", batch)).status_code == 200


@pytest.mark.parametrize(
    ("sizes", "count"),
    [([], 0), ([1, 1], 2), ([PAGE_BYTES, 1], 1), ([PAGE_BYTES - 1, 1, 1], 2), ([PAGE_BYTES * 9], 1)],
)
def test_a_page_ends_after_the_item_with_which_it_is_full(sizes: list[int], count: int) -> None:
    assert count_within(sizes) == count
