"""Tenants' limits, over HTTP."""

import time
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from asgi_lifespan import LifespanManager

from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.concurrency.limits import Arrivals
from app.console.session import COOKIE
from app.contract.settings import LIMITS
from app.knowledge.tenants.admission import BODY_BYTES, CHARGED_BYTES, Admission
from app.knowledge.tenants.directory import TenantContext
from app.main import create_app
from app.settings import Settings
from tests.fixtures.http.callers import Caller, open_client
from tests.fixtures.http.expectations import allow, expect_problem, expect_refusal
from tests.fixtures.providers.failing import FailingProvider

MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture
def still_clock(api_services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute's requests come back one by one, but not while this test runs."""
    now = time.monotonic()
    monkeypatch.setattr(api_services.admission._buckets, "_clock", lambda: now)


@pytest.mark.usefixtures("still_clock")
async def test_requests_over_a_minutes_limit_are_refused_until_one_is_free(
    admin: Caller, stranger: Caller, platform: Caller
) -> None:
    await allow(platform, admin, requests_per_minute=3)
    for _ in range(3):
        assert (await admin.get("/knowledge/entries")).status_code == 200
    answer = await admin.post("/knowledge/search", {"query": "harbour"})
    expect_refusal(answer, "requests_per_minute")
    assert 1 <= int(answer.headers["retry-after"]) <= 20
    assert (await stranger.get("/knowledge/entries")).status_code == 200
    await allow(platform, admin, requests_per_minute=None)
    assert (await admin.get("/knowledge/entries")).status_code == 200


@pytest.mark.usefixtures("still_clock")
async def test_requests_without_the_role_are_counted_too(admin: Caller, reader: Caller, platform: Caller) -> None:
    await allow(platform, admin, requests_per_minute=3)
    for _ in range(3):
        expect_problem(await reader.post("/knowledge/entries", {"content": "harbour"}), 403)
    expect_refusal(await reader.post("/knowledge/entries", {"content": "harbour"}), "requests_per_minute")


@pytest.mark.usefixtures("still_clock")
async def test_a_refused_body_counts_by_its_length(admin: Caller, api_services: Services, platform: Caller) -> None:
    await allow(platform, admin, requests_per_minute=60)
    tenant = await api_services.tenants.context(admin.tenant_id or uuid4())

    async def used_by(text: str) -> int:
        before = api_services.admission.used(tenant)["requests_per_minute"]
        await admin.post("/knowledge/entries", {"content": "harbour", "title": text})
        return api_services.admission.used(tenant)["requests_per_minute"] - before

    assert await used_by("harbour") == 1
    assert await used_by("x" * 4 * CHARGED_BYTES) == 1 + 4, "too long for a title"
    await admin.post("/knowledge/entries", {"content": "x " * CHARGED_BYTES})
    assert await used_by("harbour") == 1, "an accepted body, however long, is one request"


async def test_the_turn_of_a_body_ends_when_its_work_begins(
    admin: Caller, api_services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    context = api_services.tenants.context
    admission = api_services.admission

    async def look(tenant_id: UUID) -> TenantContext:
        held.append(admission._intakes.held(tenant_id))
        return await context(tenant_id)

    monkeypatch.setattr(api_services.tenants, "context", look)
    assert (await admin.post("/knowledge/search", {"query": "harbour"})).status_code == 200
    assert held == [0, 0], "once for the token, once for the search"
    assert admission._intakes.taken == 0
    await admin.post("/knowledge/search", {"query": ""})
    assert admission._intakes.taken == 0


async def test_a_tenant_has_only_so_many_bytes_in_progress(
    admin: Caller, stranger: Caller, api_services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_services.admission, "_patience", 0.05)
    tenant = await api_services.tenants.context(admin.tenant_id or uuid4())
    body = {"query": "harbour"}
    async with api_services.admission.holding(tenant, BODY_BYTES):
        expect_refusal(await admin.post("/knowledge/search", body), "body_bytes")
        expect_refusal(await admin.upload("a.txt", b"text", "text/plain"), "body_bytes")
        expect_refusal(await admin.post("/mcp", MESSAGE), "body_bytes")
        assert (await admin.get("/knowledge/entries")).status_code == 200
        assert (await stranger.post("/knowledge/search", body)).status_code == 200
    assert (await admin.post("/knowledge/search", body)).status_code == 200


async def test_what_has_arrived_of_all_tenants_has_a_bound(
    admin: Caller, api_services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_services.admission, "_patience", 0.05)
    arrivals = Arrivals(10, 0)
    monkeypatch.setattr(api_services.admission, "_arrivals", arrivals)
    with arrivals.arrival("first"):
        expect_refusal(await admin.post("/knowledge/search", {"query": "harbour"}), "body_bytes")
        expect_refusal(await admin.upload("a.txt", b"some text", "text/plain"), "body_bytes")
        expect_refusal(await admin.post("/mcp", MESSAGE), "body_bytes")
    assert arrivals.held == 0


@pytest.mark.usefixtures("still_clock")
async def test_each_search_of_a_batch_is_counted(admin: Caller, platform: Caller) -> None:
    await allow(platform, admin, requests_per_minute=60)
    batch = {"searches": [{"query": "harbour", "mode": "keyword"}] * 32}
    statuses = [(await admin.post("/knowledge/search/batch", batch)).status_code for _ in range(4)]
    assert statuses == [200, 200, 429, 429]


@pytest.mark.parametrize("path", ["/knowledge/entries", "/admin/stats", "/console/entries"])
async def test_reading_waits_for_the_tenants_turn(
    settings: Settings, api_services: Services, verifier: TokenVerifier, admin: Caller, stranger: Caller, path: str
) -> None:
    admission = Admission(crowd=2, patience=0.05)
    app = create_app(settings, replace(api_services, admission=admission), verifier)
    one, other = [await api_services.tenants.context(c.tenant_id) for c in (admin, stranger) if c.tenant_id]
    async with LifespanManager(app), open_client(app) as http:
        http.cookies.set(COOKIE, admin.token)
        caller = replace(admin, http=http)
        async with admission.reading(one), admission.reading(other):
            answer = await caller.get(path)
        assert answer.status_code == 429
        assert "concurrent_requests" in answer.text
        # The tenant pays for the refused request's time first, and an application's first page takes long to render.
        admission._patience = 30.0
        assert (await caller.get(path)).status_code == 200


async def test_a_request_over_the_limit_is_refused_before_its_body_is_read(admin: Caller, platform: Caller) -> None:
    await allow(platform, admin, requests_per_minute=1)
    await admin.get("/knowledge/entries")
    read = False

    async def body() -> Any:
        nonlocal read
        read = True
        yield b"{}"

    expect_refusal(await admin.post("/knowledge/entries", content=body()), "requests_per_minute")
    assert not read


async def test_entries_over_the_limit_are_refused_and_others_changed_as_before(admin: Caller, platform: Caller) -> None:
    await allow(platform, admin, entries=2)
    first = await admin.add("one", external_id="one")
    answer = await admin.post("/knowledge/entries/bulk", {"entries": [{"content": t} for t in ("a", "b", "c")]})
    results = answer.json()["results"]
    assert [r["status"] for r in results] == ["created", "failed", "failed"]
    assert results[1]["error"] == "entries: the tenant's limit of 2 entries is reached"
    expect_refusal(await admin.post("/knowledge/entries", {"content": "d"}), "entries")
    again = await admin.post("/knowledge/entries", {"content": "one more time", "external_id": "one"})
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    expect_refusal(await admin.upload("a.txt", b"a file", "text/plain"), "entries")
    await admin.delete(f"/knowledge/entries/{first['id']}")
    await admin.add("d")


async def test_bytes_over_the_limit_are_refused(admin: Caller, platform: Caller) -> None:
    await allow(platform, admin, bytes=30)
    entry = await admin.add("x" * 20, title="ab")
    expect_refusal(await admin.post("/knowledge/entries", {"content": "y" * 7}), "bytes")
    expect_refusal(await admin.upload("a.txt", b"z" * 7, "text/plain"), "bytes")
    path = f"/knowledge/entries/{entry['id']}"
    expect_refusal(await admin.patch(path, {"content": "x" * 27}), "bytes")
    assert (await admin.patch(path, {"content": "x" * 26})).status_code == 200
    assert (await admin.patch(path, {"content": "x"})).status_code == 200
    assert (await admin.upload("a.txt", b"z" * 7, "text/plain")).status_code == 202


async def test_a_document_with_more_chunks_than_the_limit_fails_with_a_reason(
    admin: Caller, platform: Caller, work: Any
) -> None:
    await allow(platform, admin, entries=1)
    asset = (await admin.upload("a.md", b"# A\n\nOne.\n\n" + b"word " * 3000, "text/markdown")).json()
    await work()
    path = f"/knowledge/assets/{asset['id']}"
    failed = (await admin.get(path)).json()
    assert (failed["status"], failed["chunks"]) == ("failed", 0)
    assert failed["error"] == "entries: the tenant's limit of 1 entries is reached"
    await allow(platform, admin, entries=None)
    await admin.post(f"{path}/retry")
    await work()
    assert (await admin.get(path)).json()["status"] == "indexed"


async def test_searches_are_keyword_only_when_the_days_tokens_are_used_up(
    admin: Caller, platform: Caller, provider: FailingProvider, api_services: Services
) -> None:
    await allow(platform, admin, embedding_tokens_per_day=3)
    first = await admin.add("The harbour opens at six")
    assert first["embedding_status"] == "ready"
    api_services.tenants.forget(admin.tenant_id)  # type: ignore[arg-type]
    second = await admin.add("The harbour closes at ten")
    assert second["embedding_status"] == "pending"
    found = await admin.search("harbour")
    assert found["metadata"]["degraded"] == ["quota_exhausted"]
    assert found["metadata"]["fallback_mode"] is True
    assert {hit["id"] for hit in found["results"]} == {first["id"], second["id"]}
    assert provider.queries == []
    await allow(platform, admin, embedding_tokens_per_day=None)
    # The second entry still waits for its vector.
    assert (await admin.search("harbour"))["metadata"]["degraded"] == ["embeddings_pending"]


@pytest.mark.usefixtures("still_clock")
async def test_stats_show_how_much_of_each_limit_is_used(
    admin: Caller, platform: Caller, provider: FailingProvider
) -> None:
    await allow(platform, admin, entries=10, requests_per_minute=100, bytes=0)
    await admin.add("12345678")
    await admin.search("1234")
    limits = (await admin.get("/admin/stats")).json()["limits"]
    assert set(limits) == set(LIMITS)
    assert limits["entries"] == {"used": 1, "limit": 10}
    assert limits["bytes"] == {"used": 8, "limit": None}
    assert limits["requests_per_minute"] == {"used": 2, "limit": 100}, "administration is not counted"
    assert limits["embedding_tokens_per_day"]["used"] == 3
    assert limits["concurrent_searches"]["used"] == 0


async def test_a_tenants_admin_may_lower_but_not_raise_a_limit(admin: Caller, platform: Caller) -> None:
    await allow(platform, admin, entries=5)
    problem = expect_problem(await admin.patch("/admin/settings", {"limits": {"entries": 6}}), 422)
    assert problem["errors"] == [
        {"field": "limits.entries", "message": "must be at most 5, the platform's limit for this tenant"}
    ]
    changed = (await admin.patch("/admin/settings", {"limits": {"entries": 1, "bytes": 100}})).json()
    assert changed["limits"] == {**dict.fromkeys(LIMITS), "entries": 1, "bytes": 100}
    changed = (await admin.patch("/admin/settings", {"limits": {"bytes": None}})).json()
    assert changed["limits"] == {**dict.fromkeys(LIMITS), "entries": 1}
    await admin.add("one")
    expect_refusal(await admin.post("/knowledge/entries", {"content": "two"}), "entries")
    await admin.patch("/admin/settings", {"limits": None})
    await admin.add("two")


async def test_limits_of_an_unknown_tenant_cannot_be_set(platform: Caller) -> None:
    expect_problem(await platform.patch(f"/admin/tenants/{uuid4()}", {"limits": {"entries": 1}}), 404)


async def test_a_limit_that_was_set_too_low_can_be_raised_again(admin: Caller) -> None:
    await admin.patch("/admin/settings", {"limits": {"requests_per_minute": 1}})
    await admin.get("/knowledge/entries")
    expect_problem(await admin.get("/knowledge/entries"), 429)
    assert (await admin.patch("/admin/settings", {"limits": None})).status_code == 200
    assert (await admin.get("/knowledge/entries")).status_code == 200
