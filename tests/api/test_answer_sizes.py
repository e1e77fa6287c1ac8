"""Sizes of answers, and the share of the loop."""

import asyncio
import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.composition.services import Services
from app.concurrency.background import MemoryRelease
from app.concurrency.share import DEEPEST, FREE, LARGE, MIB, MIB_SECONDS, REFUSED_SECONDS, SHARE, Work
from app.concurrency.turns import LATELY
from app.db.queries.audit import write_audit
from app.knowledge.paging import PAGE_BYTES, count_within
from app.knowledge.search.service import BATCH_BYTES
from app.knowledge.tenants.admission import ANSWER_BYTES, Admission
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_problem, expect_refusal
from tests.fixtures.workers import run_due

SHIP = "\U0001f6a2"
"""Four bytes."""
LARGE_ANSWER = 8
ON_A_PAGE = 6
"""Of entries of 400,000 bytes: the sixth is the one with which the page has PAGE_BYTES."""


@pytest.fixture
async def filled(admin: Caller) -> Caller:
    for number in range(LARGE_ANSWER):
        await admin.add(f"harbour {number} " + SHIP * 99_900)
    return admin


async def search_all(caller: Caller, **query: Any) -> list[list[str]]:
    """The ids of all pages."""
    pages: list[list[str]] = []
    cursor = None
    while True:
        body = {"query": "harbour", "mode": "keyword", "limit": 50, "duplicates": "show", **query, "cursor": cursor}
        answer = await caller.post("/knowledge/search", {k: v for k, v in body.items() if v is not None})
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert found["metadata"]["total"] == LARGE_ANSWER
        pages.append([hit["id"] for hit in found["results"]])
        if query.get("explain"):
            assert len(found["debug_info"]["hits"]) == len(pages[-1])
        cursor = found["metadata"]["next_cursor"]
        if cursor is None:
            return pages


@pytest.mark.sampled(2)
@pytest.mark.parametrize("explain", [False, True])
async def test_a_page_of_a_search_ends_early_and_its_cursor_continues(filled: Caller, explain: bool) -> None:
    pages = await search_all(filled, explain=explain)
    assert [len(page) for page in pages] == [ON_A_PAGE, LARGE_ANSWER - ON_A_PAGE]
    assert len({entry for page in pages for entry in page}) == LARGE_ANSWER


async def test_a_page_within_the_bounds_has_its_limit(filled: Caller) -> None:
    assert [len(page) for page in await search_all(filled, limit=4)] == [4, 4]


async def test_a_deleted_hit_does_not_end_a_page(filled: Caller) -> None:
    body = {"query": "harbour", "mode": "keyword", "limit": 2, "duplicates": "show"}
    first = (await filled.post("/knowledge/search", body)).json()
    second = await filled.post("/knowledge/search", {**body, "cursor": first["metadata"]["next_cursor"]})
    assert (await filled.delete(f"/knowledge/entries/{second.json()['results'][1]['id']}")).status_code == 204
    again = await filled.post("/knowledge/search", {**body, "cursor": first["metadata"]["next_cursor"]})
    assert len(again.json()["results"]) == 1
    assert again.json()["metadata"]["next_cursor"] == second.json()["metadata"]["next_cursor"]


async def test_a_page_of_a_list_ends_early_and_its_cursor_continues(filled: Caller) -> None:
    first = (await filled.get("/knowledge/entries?limit=200")).json()
    rest = (await filled.get(f"/knowledge/entries?limit=200&cursor={first['next_cursor']}")).json()
    assert (len(first["items"]), len(rest["items"])) == (ON_A_PAGE, LARGE_ANSWER - ON_A_PAGE)
    assert rest["next_cursor"] is None
    assert len({entry["id"] for entry in first["items"] + rest["items"]}) == LARGE_ANSWER


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
    ids = [uuid4() for _ in range(1_000)]
    filling = -(-PAGE_BYTES // (39 * len(ids)))
    async with api_services.database.tenant_session(admin.own_tenant) as session:
        for _ in range(filling + 1):
            await write_audit(session, "ada", "entry.write", ids, {})
    assert await read_pages(admin, "/admin/audit") == [filling, 1]


@pytest.mark.slow
async def test_the_results_of_a_batch_are_bounded_together(filled: Caller) -> None:
    search = {"query": "harbour", "mode": "keyword", "limit": 50, "duplicates": "show"}
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
    ("sizes", "count"), [([], 0), ([1, 1], 2), ([PAGE_BYTES, 1], 1), ([PAGE_BYTES - 1, 1, 1], 2), ([PAGE_BYTES * 9], 1)]
)
def test_a_page_ends_after_the_item_with_which_it_is_full(sizes: list[int], count: int) -> None:
    assert count_within(sizes) == count


def charged(services: Services, caller: Caller) -> float:
    """Seconds that the caller's tenant was charged and has not paid back."""
    account = services.admission._loop._accounts.get(caller.tenant_id)
    return 0.0 if account is None else FREE - account.seconds


REFUSED: list[tuple[str, dict[str, Any], int]] = [
    ("/knowledge/search", {"query": "harbour", "limit": 0}, 422),
    ("/knowledge/search", {"query": "harbour", "unknown": 1}, 422),
    ("/knowledge/search", {"query": "harbour", "metadata": {"a": [[]] * 3_000}}, 422),
    ("/knowledge/entries", {"content": ""}, 422),
    ("/knowledge/search", {"query": "x" * 300_000}, 413),
]


@pytest.fixture
def still(api_services: Services, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the share, which stands still."""
    now = [0.0]
    monkeypatch.setattr(api_services.admission._loop, "_clock", lambda: now[0])
    return now


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(("path", "body", "status"), REFUSED)
async def test_a_refused_body_is_charged(
    api_services: Services, admin: Caller, path: str, body: dict[str, Any], status: int
) -> None:
    before = charged(api_services, admin)
    expect_problem(await admin.post(path, body), status)
    assert charged(api_services, admin) > before


@pytest.mark.usefixtures("still")
async def test_accepted_small_requests_and_missing_items_are_not_charged(api_services: Services, admin: Caller) -> None:
    assert (await admin.post("/knowledge/entries", {"content": "harbour"})).status_code == 201
    assert (await admin.post("/knowledge/search", {"query": "harbour"})).status_code == 200
    assert (await admin.get(f"/knowledge/entries/{uuid4()}")).status_code == 404
    assert charged(api_services, admin) == 0


@pytest.mark.usefixtures("still")
async def test_a_large_accepted_body_is_charged(api_services: Services, admin: Caller) -> None:
    entries = [{"content": f"{number} " + "harbour " * 10_000} for number in range(LARGE // 80_000 + 1)]
    answer = await admin.post("/knowledge/entries/bulk", {"entries": entries})
    assert answer.status_code in (200, 201)
    assert charged(api_services, admin) > 0


@pytest.mark.usefixtures("still")
async def test_a_large_body_is_charged_when_it_is_announced_and_only_once(
    api_services: Services, admin: Caller
) -> None:
    assert isinstance(admin.tenant_id, UUID)
    admission = api_services.admission
    tenant = await api_services.tenants.context(admin.tenant_id)
    ticket = await admission.pace(tenant, 5 * MIB)
    assert charged(api_services, admin) == pytest.approx(5 * MIB_SECONDS)
    admission.charge_answered(tenant, Work(0.0, 5 * MIB, refused=False), ticket)
    assert charged(api_services, admin) == pytest.approx(5 * MIB_SECONDS + REFUSED_SECONDS)
    await admission.pace(tenant, LARGE)
    assert charged(api_services, admin) == pytest.approx(5 * MIB_SECONDS + REFUSED_SECONDS)


async def test_a_tenant_in_debt_waits_and_others_do_not(
    api_services: Services, admin: Caller, stranger: Caller, still: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    admission = api_services.admission
    monkeypatch.setattr(admission, "_patience", 0.05)
    assert isinstance(admin.tenant_id, UUID)
    admission._loop.charge(admin.tenant_id, FREE + DEEPEST)
    search = {"query": "harbour"}
    assert (await stranger.post("/knowledge/search", search)).status_code == 200
    expect_refusal(await admin.post("/knowledge/search", search), "concurrent_requests")
    expect_refusal(await admin.get("/knowledge/entries"), "concurrent_requests")
    still[0] += DEEPEST / SHARE + 1
    assert (await stranger.post("/knowledge/search", search)).status_code == 200
    assert (await admin.post("/knowledge/search", search)).status_code == 200
    assert not admission._loop._accounts[admin.tenant_id].waiting


async def test_a_tenant_whose_requests_all_wait_waits_while_another_one_is_active(
    api_services: Services, admin: Caller, stranger: Caller
) -> None:
    now = [0.0]
    admission = Admission(clock=lambda: now[0])
    one, other = [await api_services.tenants.context(c.tenant_id) for c in (admin, stranger) if c.tenant_id]
    admission._loop.charge(one.tenant_id, FREE + DEEPEST)
    await admission.pace(other, 0)
    waiting = asyncio.create_task(admission.pace(one, 0))
    await asyncio.sleep(0)
    now[0] += 2 * LATELY
    await admission.pace(other, 0)
    admission._loop._hand_out(one.tenant_id)
    await asyncio.sleep(0)
    assert not waiting.done(), "the tenant itself is not active: its request was noted long ago"
    now[0] += 2 * LATELY
    admission._loop._hand_out(one.tenant_id)
    await asyncio.wait_for(waiting, 60)


@pytest.mark.slow
async def test_memory_is_released_after_a_large_body_a_large_answer_and_a_large_file(
    api_services: Services, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(MemoryRelease, "note", lambda self, size: sizes.append(size))
    await admin.post("/knowledge/entries/bulk", {"entries": [], "unknown": "x" * LARGE})
    assert max(sizes) > LARGE
    sizes.clear()
    entry = await admin.add("harbour " * 12_000)
    assert max(sizes) > 96_000
    sizes.clear()
    answer = await admin.get(f"/knowledge/entries/{entry['id']}", headers={"Accept-Encoding": "identity"})
    assert len(answer.content) > 96_000
    assert sizes == [len(answer.content)]
    text = b"A file about a harbour."
    sizes.clear()
    await admin.upload("a.txt", text, "text/plain")
    await run_due(api_services.worker)
    assert len(text) in sizes
