"""The tenant's administration."""

import re
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from app.composition.services import Services
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller, open_client
from tests.fixtures.http.expectations import expect_fields, expect_problem, expect_refusal, is_time
from tests.fixtures.providers.failing import FailingProvider


async def test_the_stats_count_what_is_stored(
    admin: Caller, stranger: Caller, provider: FailingProvider, work: Work, api_services: Services
) -> None:
    await stranger.add("Not counted")
    await admin.upload("a.txt", b"The harbour opens at six", "text/plain")
    await work()
    await admin.add("Eine Tatsache über den Hafen und seine Öffnungszeiten")
    await admin.add("A lesson about the harbour", entry_type="lesson")
    provider.down = True
    await admin.add("Waits for its vector", entry_type="lesson")
    await admin.search("harbour")
    await admin.search("zzz", mode="keyword")
    await api_services.journal.flush()
    stats = (await admin.get("/admin/stats")).json()
    assert stats["entries"] == 4
    assert stats["entries_by_type"] == {"chunk": 1, "fact": 1, "lesson": 2}
    assert stats["entries_by_language"] == {"english": 3, "german": 1}
    assert stats["assets_by_status"] == {"indexed": 1}
    assert stats["pending_embeddings"] == 1
    assert stats["model"] == {"provider": "mock", "name": provider.model.name, "dimensions": 16}
    assert (stats["searches_24h"], stats["searches_without_results_24h"]) == (2, 1)
    assert stats["fallback_rate_24h"] == 0.5
    assert set(stats) >= {"passages", "indexed", "jobs"}


@pytest.mark.parametrize(
    ("set_before", "changes", "field"),
    [
        ({}, {"default_limit": 9, "max_limit": 5}, "default_limit"),
        ({"max_limit": 5}, {"default_limit": 6}, "default_limit"),
        ({"default_limit": 9}, {"max_limit": 8}, "max_limit"),
    ],
)
async def test_impossible_limits_of_a_page_are_refused(
    admin: Caller, set_before: dict[str, int], changes: dict[str, int], field: str
) -> None:
    before = await admin.patch("/admin/settings", set_before)
    expect_fields(await admin.patch("/admin/settings", changes), field)
    assert (await admin.get("/admin/settings")).json() == before.json()
    assert (await admin.patch("/admin/settings", {"max_limit": 9, "default_limit": 9})).status_code == 200


async def test_boosts_use_the_tenants_factors(admin: Caller) -> None:
    await admin.patch("/admin/settings", {"type_weights": {"fact": 5}, "verified_boost": 2, "fusion": "rrf"})
    await admin.add("word", is_verified=True)
    found = await admin.search("word", mode="keyword", boost=["type", "verified"], explain=True)
    assert found["debug_info"]["hits"][0]["boosts"] == {"type": 5, "verified": 2}
    assert found["results"][0]["score"] == pytest.approx(0.3 / 61 * 10)


async def test_a_receipt_exists_as_soon_as_its_search_is_answered(admin: Caller) -> None:
    for _ in range(3):
        search_id = (await admin.search("harbour"))["metadata"]["search_id"]
        answer = await admin.get(f"/admin/searches/{search_id}")
        assert answer.status_code == 200
        assert answer.json()["search_id"] == search_id


async def test_a_search_has_a_receipt_for_its_own_tenants_admin(
    admin: Caller, reader: Caller, stranger: Caller, api_services: Services
) -> None:
    await admin.add("The harbour opens at six")
    found = await reader.search("The harbour opens at six", rrf_k=7)
    await api_services.journal.flush()
    path = f"/admin/searches/{found['metadata']['search_id']}"
    receipt = (await admin.get(path)).json()
    assert receipt["search_id"] == found["metadata"]["search_id"]
    assert (receipt["subject"], receipt["rrf_k"], receipt["mode"]) == ("rita", 7, "hybrid")
    assert is_time(receipt["at"])
    (hit,) = receipt["ranking"]
    assert (hit["id"], hit["semantic_rank"], hit["keyword_rank"]) == (found["results"][0]["id"], 1, 1)
    assert hit["score"] == found["results"][0]["score"]
    assert "harbour" not in str(receipt)
    unknown = expect_problem(await admin.get(f"/admin/searches/{uuid4()}"), 404)
    foreign = expect_problem(await stranger.get(path), 404)
    assert unknown["detail"] == foreign["detail"]


async def _list_tenants(platform: Caller, limit: int = 200) -> list[Any]:
    """All tenants, page by page."""
    tenants: list[Any] = []
    parameters: dict[str, Any] = {"limit": limit}
    while True:
        page = (await platform.get("/admin/tenants", params=parameters)).json()
        assert len(page["items"]) <= limit
        tenants += page["items"]
        assert len({tenant["id"] for tenant in tenants}) == len(tenants)
        if page["next_cursor"] is None:
            return tenants
        parameters["cursor"] = page["next_cursor"]


async def test_tenants_are_listed_in_pages(
    platform: Caller, admin: Caller, stranger: Caller, api_services: Services
) -> None:
    all_ids = [str(tenant.id) for tenant in await api_services.tenants.list_tenants()]
    limit = min(200, max(1, len(all_ids) // 3))  # all tests share the database
    assert [tenant["id"] for tenant in await _list_tenants(platform, limit)] == all_ids


async def test_reads_of_platform_admins_wait_for_each_other(
    platform: Caller, api_services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = api_services.platform
    monkeypatch.setattr(service, "_patience", 0.05)
    async with service._turn("paula"), service._turn("paula"):
        expect_refusal(await platform.get("/admin/tenants"), "concurrent_requests")
    assert (await platform.get("/admin/tenants")).status_code == 200


async def test_metrics_are_only_for_callers_on_this_machine(app: FastAPI, admin: Caller) -> None:
    await admin.search("harbour")
    for address, local in (("127.0.0.1", True), ("::1", True), ("10.0.0.7", False), ("192.0.2.1", False)):
        async with open_client(app, address) as client:
            answer = await client.get("/metrics")
            if local:
                assert answer.status_code == 200
                assert answer.headers["content-type"].startswith("text/plain")
            else:
                expect_problem(answer, 404)
    async with open_client(app) as client:
        marks = (
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Real-IP",
            "Forwarded",
            "Via",
            "CF-Connecting-IP",
            "X-Client-IP",
        )
        for header in marks:
            expect_problem(await client.get("/metrics", headers={header: "10.0.0.7"}), 404)


async def test_metrics_are_not_for_a_proxy_that_speaks_http_1_0(app: FastAPI) -> None:
    async def old(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "http_version": "1.0"}, receive, send)

    transport = httpx.ASGITransport(app=old, client=("127.0.0.1", 40_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as client:
        expect_problem(await client.get("/metrics"), 404)
        assert (await client.get("/healthz")).status_code == 200


async def test_metrics_count_requests_by_route_without_ids(admin: Caller) -> None:
    entry = await admin.add("The harbour")
    await admin.get(f"/knowledge/entries/{entry['id']}")
    await admin.get("/no/such/path")
    text = (await admin.get("/metrics")).text
    assert re.search(r'knowledge_requests_total\{method="POST",route="[^"]*entries",status="201"\} \d', text)
    assert "{entry_id}" in text
    for secret in (entry["id"], str(admin.tenant_id), "no/such"):
        assert secret not in text


async def test_the_docs_load_nothing_from_other_hosts(http: httpx.AsyncClient) -> None:
    page = await http.get("/docs")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r"""(?:src|href|url)\s*[=:(]\s*["']?(?:https?:)?//""", page.text)
    assert not re.search("https?://", page.text)
    files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(files) >= 2
    for file in [*files, "/openapi.json"]:
        assert (await http.get(file)).status_code == 200, file
