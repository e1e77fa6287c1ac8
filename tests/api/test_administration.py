"""The tenant's administration."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from app.auth.principal import Role
from app.composition.services import Services
from app.db.rows import new_id
from tests.api.endpoints import OPEN
from tests.fixtures.http.callers import Caller, make_token, open_client
from tests.fixtures.http.expectations import each, expect_fields, expect_problem, is_id, is_time
from tests.fixtures.http.limits import expect_refusal
from tests.fixtures.providers.failing import FailingProvider

SETTINGS = {
    *("weights", "type_weights", "similarity_threshold", "fusion", "verified_boost", "keep_query_text"),
    *("default_limit", "max_limit", "purge_expired_after_days", "limits", "rerank", "auto_tune", "tuned"),
    *("keep_versions_days", "suspicious_content"),
}


async def test_the_stats_count_what_is_stored(
    admin: Caller,
    stranger: Caller,
    provider: FailingProvider,
    work: Callable[[], Awaitable[None]],
    api_services: Services,
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


async def test_settings_have_their_defaults_and_keep_changes(admin: Caller, stranger: Caller) -> None:
    settings = (await admin.get("/admin/settings")).json()
    assert set(settings) == SETTINGS
    assert (settings["fusion"], settings["weights"], settings["keep_query_text"]) == ("score", None, False)
    changes = {
        "weights": {"semantic": 0.2, "keyword": 0.8},
        "similarity_threshold": 0.25,
        "fusion": "score",
        "verified_boost": 3.0,
        "keep_query_text": True,
        "default_limit": 4,
        "max_limit": 8,
        "purge_expired_after_days": 30,
        "keep_versions_days": 90,
    }
    answer = await admin.patch("/admin/settings", changes)
    assert answer.status_code == 200
    assert {name: answer.json()[name] for name in changes} == changes
    assert (await admin.get("/admin/settings")).json() == answer.json()
    back = (await admin.patch("/admin/settings", dict.fromkeys(changes))).json()
    assert back == settings == (await stranger.get("/admin/settings")).json()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *each("weights", {"semantic": 0.5, "keyword": 0.6}, {"semantic": 1}, [1, 0], "x"),
        *each("similarity_threshold", -0.1, 1.1, "x"),
        *each("fusion", "max", 1),
        *each("verified_boost", 0, 101, "x"),
        *each("type_weights", {"novel": 1}, {"fact": 0}, {"fact": 101}, [1], {"\x00": 1}),
        *each("default_limit", 0, 101, 1.5, "3", True),
        *each("max_limit", 0, 101),
        *each("purge_expired_after_days", -1, 36_501, 0.5, "7", True),
        *each("keep_query_text", 7, []),
        ("tenant_id", "x"),
    ],
)
async def test_a_setting_outside_its_range_is_refused(admin: Caller, field: str, value: Any) -> None:
    before = (await admin.get("/admin/settings")).json()
    answer = await admin.patch("/admin/settings", {"fusion": "score", field: value})
    errors = expect_problem(answer, 422)["errors"]
    assert {error["field"].partition(".")[0] for error in errors} == {field}
    assert (await admin.get("/admin/settings")).json() == before


async def test_settings_apply_where_a_search_omits_a_field(admin: Caller, provider: FailingProvider) -> None:
    provider.vectors["pier"] = provider.direction(1.0)
    provider.vectors["Near"] = provider.direction(0.6, 0.8)
    await admin.add("Near")
    await admin.add("The pier is long")
    near = await admin.search("pier", similarity_threshold=0.5, fusion="rrf")
    assert [h["content"] for h in near["results"]] == ["Near", "The pier is long"]
    await admin.patch(
        "/admin/settings",
        {"similarity_threshold": 0.5, "weights": {"semantic": 0.1, "keyword": 0.9}, "max_limit": 5},
    )
    found = await admin.search("pier", explain=True, fusion="rrf")
    assert [hit["content"] for hit in found["results"]] == ["The pier is long", "Near"]
    assert found["results"][0]["score"] == pytest.approx(0.9 / 61)
    assert found["debug_info"]["similarity_threshold"] == 0.5
    await admin.patch("/admin/settings", {"similarity_threshold": 0.7, "fusion": "score"})
    found = await admin.search("pier", explain=True)
    assert [hit["content"] for hit in found["results"]] == ["The pier is long"]
    assert found["debug_info"]["fusion"] == "score"
    own = await admin.search("pier", explain=True, similarity_threshold=0.1, fusion="rrf")
    assert len(own["results"]) == 2
    assert own["debug_info"]["fusion"] == "rrf"
    expect_fields(await admin.post("/knowledge/search", {"query": "pier", "limit": 6}), "limit")


@pytest.mark.parametrize(
    ("set_before", "changes", "field"),
    [
        ({}, {"default_limit": 9, "max_limit": 5}, "default_limit"),
        ({"max_limit": 5}, {"default_limit": 6}, "default_limit"),
        ({"default_limit": 9}, {"max_limit": 8}, "max_limit"),
        ({}, {"max_limit": 51}, "max_limit"),
        ({}, {"default_limit": 51}, "default_limit"),
    ],
)
async def test_impossible_limits_of_a_page_are_refused(
    admin: Caller, set_before: dict[str, int], changes: dict[str, int], field: str
) -> None:
    before = await admin.patch("/admin/settings", set_before)
    expect_fields(await admin.patch("/admin/settings", changes), field)
    assert (await admin.get("/admin/settings")).json() == before.json()
    assert (await admin.patch("/admin/settings", {"max_limit": 9, "default_limit": 9})).status_code == 200


async def test_a_limit_of_the_tenant_below_the_services_default_holds(admin: Caller) -> None:
    await admin.post("/knowledge/entries/bulk", {"entries": [{"content": f"word {n}"} for n in range(6)]})
    await admin.patch("/admin/settings", {"max_limit": 2})
    assert len(await admin.find("word")) == 2
    await admin.patch("/admin/settings", {"max_limit": None, "default_limit": 4})
    assert len(await admin.find("word")) == 4


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


async def test_the_audit_names_actor_and_action_and_no_content(admin: Caller, http: httpx.AsyncClient) -> None:
    writer = Caller(http, admin.tenant_id, make_token(admin.tenant_id, Role.CREATOR, subject="carl"))
    entry = await writer.add("Secret of the harbour", title="Hidden")
    path = f"/knowledge/entries/{entry['id']}"
    await admin.patch(path, {"tags": ["t"]})
    await writer.delete(path)
    asset = (await writer.upload("secret.txt", b"Secret of the asset", "text/plain")).json()
    await writer.delete(f"/knowledge/assets/{asset['id']}")
    await admin.patch("/admin/settings", {"fusion": "score"})
    first = (await admin.get("/admin/audit", params={"limit": 4})).json()
    rest = (await admin.get("/admin/audit", params={"limit": 4, "cursor": first["next_cursor"]})).json()
    items = first["items"] + rest["items"]
    assert [(i["actor"], i["action"], i["subject_ids"]) for i in items] == [
        ("ada", "settings.update", []),
        ("carl", "asset.delete", [asset["id"]]),
        ("carl", "asset.upload", [asset["id"]]),
        ("carl", "entry.delete", [entry["id"]]),
        ("ada", "entry.update", [entry["id"]]),
        ("carl", "entry.write", [entry["id"]]),
    ]
    for item in items:
        assert set(item) == {"id", "at", "actor", "action", "subject_ids", "outcome", "detail"}
        assert is_id(item["id"])
        assert is_time(item["at"])
        assert not any(word in str(item) for word in ("Secret", "Hidden", "secret.txt"))


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


async def test_a_receipt_keeps_the_query_when_the_tenant_enables_it(admin: Caller, api_services: Services) -> None:
    await admin.patch("/admin/settings", {"keep_query_text": True})
    found = await admin.search("where is the harbour")
    await api_services.journal.flush()
    receipt = (await admin.get(f"/admin/searches/{found['metadata']['search_id']}")).json()
    assert receipt["query"] == "where is the harbour"


async def test_platform_admins_create_list_and_delete_tenants(platform: Caller, http: httpx.AsyncClient) -> None:
    slug = f"p-{new_id().hex}"
    answer = await platform.post("/admin/tenants", {"slug": slug, "name": "Port Authority"})
    assert answer.status_code == 201
    tenant = answer.json()
    assert set(tenant) == {"id", "slug", "name", "created_at"}
    assert (tenant["slug"], tenant["name"]) == (slug, "Port Authority")
    assert answer.headers["location"] == f"/admin/tenants/{tenant['id']}"
    assert is_id(tenant["id"])
    assert is_time(tenant["created_at"])
    expect_problem(await platform.post("/admin/tenants", {"slug": slug}), 409)
    assert (await _list_tenants(platform))[-1] == tenant
    caller = Caller(http, tenant["id"], make_token(tenant["id"], Role.READER))
    assert (await caller.search("anything"))["results"] == []
    assert (await platform.delete(f"/admin/tenants/{tenant['id']}")).status_code == 204
    expect_problem(await platform.delete(f"/admin/tenants/{tenant['id']}"), 404)
    assert tenant not in await _list_tenants(platform)


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
    for refused in ("abc", 0, 201):
        expect_fields(await platform.get("/admin/tenants", params={"limit": refused}), "limit")
    expect_fields(await platform.get("/admin/tenants", params={"cursor": "x"}), "cursor")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        *(({"slug": slug}, "slug") for slug in ("", "-a", "A", "a b", "ä", "a" * 64, "a\n", "a\x00", None, 1)),
        *(({"slug": "fine", "name": name}, "name") for name in ("", "  ", "x" * 201, "\x00", 1)),
        ({}, "slug"),
        ({"slug": "fine", "id": "x"}, "id"),
    ],
)
async def test_an_invalid_tenant_is_refused(platform: Caller, body: Any, field: str) -> None:
    expect_fields(await platform.post("/admin/tenants", body), field)


async def test_reads_of_platform_admins_wait_for_each_other(
    platform: Caller, api_services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = api_services.platform
    monkeypatch.setattr(service, "_patience", 0.05)
    async with service._turn("paula"), service._turn("paula"):
        expect_refusal(await platform.get("/admin/tenants"), "concurrent_requests")
    assert (await platform.get("/admin/tenants")).status_code == 200


async def test_health_and_readiness_need_no_token(http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz")).json() == {"status": "ok"}
    assert (await http.get("/readyz")).json() == {"status": "ready"}


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


@pytest.fixture(scope="module")
def description(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


def operations(description: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def references(value: Any) -> Iterator[str]:
    """Yield every $ref of the document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_every_reference_of_the_description_resolves(description: dict[str, Any]) -> None:
    found = set(references(description))
    assert len(found) > 10
    for reference in found:
        place: Any = description
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]


def test_operation_ids_are_unique(description: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, operation in operations(description)]
    assert len(ids) == len(set(ids)) > 20
    assert all(re.fullmatch("[a-z_]+", name) for name in ids)


def test_every_secured_operation_is_marked_as_secured(description: dict[str, Any]) -> None:
    for name, operation in operations(description):
        secured = name not in OPEN
        assert ({"401", "403", "503"} <= set(operation["responses"])) is secured, name
        assert bool(operation.get("security")) is secured, name


def test_every_operation_with_a_body_names_its_refusals(description: dict[str, Any]) -> None:
    for name, operation in operations(description):
        if "requestBody" in operation:
            assert {"413", "415", "422"} <= set(operation["responses"]), name


def test_the_paths_parameters_are_described(description: dict[str, Any]) -> None:
    for name, operation in operations(description):
        described = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
        assert described == set(re.findall(r"\{(\w+)\}", name)), name


async def test_answers_have_the_fields_that_the_description_names(admin: Caller, description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    entry = await admin.add("The harbour")
    found = await admin.search("The harbour")
    asset = (await admin.upload("a.txt", b"text", "text/plain")).json()
    for name, value in (
        ("Entry", entry),
        ("SearchResponse", found),
        ("Hit", found["results"][0]),
        ("SearchMetadata", found["metadata"]),
        ("Asset", asset),
        ("Stats", (await admin.get("/admin/stats")).json()),
        ("Settings", (await admin.get("/admin/settings")).json()),
    ):
        assert set(schemas[name]["properties"]) == set(value), name
