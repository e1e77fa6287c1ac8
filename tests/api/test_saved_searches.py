"""Saved searches, and feedback."""

import time
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import Tenant
from app.knowledge.paging import PAGE_BYTES
from tests.fixtures.http.callers import SECRET, Caller, make_token
from tests.fixtures.http.expectations import expect_fields, expect_problem
from tests.fixtures.identity.forgery import forge

PATH = "/knowledge/saved-searches"
HOOK = "https://example.com/hooks/1?key=abc"


@pytest.fixture
def berta(http: httpx.AsyncClient, api_tenant: Tenant) -> Caller:
    """Another reader of the tenant."""
    return Caller(http, api_tenant.id, make_token(api_tenant.id, Role.READER, subject="berta"))


async def save(caller: Caller, name: str = "Harbours", **request: Any) -> dict[str, Any]:
    answer = await caller.post(PATH, {"name": name, "request": {"query": "harbour", **request}})
    assert answer.status_code in (200, 201), answer.text
    saved: dict[str, Any] = answer.json()
    return saved


@pytest.mark.parametrize("body", [b'{"limit": 3}', b"[]", b"null", b"limit=3", b"{"])
async def test_a_run_with_a_body_is_refused(reader: Caller, body: bytes) -> None:
    saved = await save(reader)
    refused = await reader.post(f"{PATH}/{saved['id']}/run", content=body)
    expect_fields(refused, "body")


async def test_a_page_of_large_saved_searches_ends_early(reader: Caller) -> None:
    ids = [str(uuid4()) for _ in range(1_000)]
    large = PAGE_BYTES // (39 * len(ids)) + 2
    names = [f"search {number}" for number in range(large + 1)]
    for name in names:
        await save(reader, name, asset_id=ids)
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    pages = 0
    while pages == 0 or cursor["cursor"]:
        page = (await reader.get(PATH, params={"limit": 200, **cursor})).json()
        seen += [saved["name"] for saved in page["items"]]
        cursor = {"cursor": page["next_cursor"]}
        pages += 1
    assert (seen, pages) == (names[::-1], 2)


async def test_a_run_continues_with_the_cursor_of_a_search(admin: Caller, reader: Caller) -> None:
    for n in range(3):
        await admin.add(f"The harbour {n}")
    saved = await save(reader, mode="keyword", limit=1)
    first = (await reader.post(f"{PATH}/{saved['id']}/run")).json()
    second = await reader.search("harbour", limit=1, cursor=first["metadata"]["next_cursor"])
    assert second["results"][0]["id"] != first["results"][0]["id"]


async def test_other_principals_of_the_tenant_do_not_see_it(reader: Caller, berta: Caller, admin: Caller) -> None:
    saved = await save(reader)
    await reader.post(f"{PATH}/{saved['id']}/subscription", {"url": HOOK})
    for other in (berta, admin):
        for method, path in (
            ("GET", saved["id"]), ("POST", f"{saved['id']}/run"), ("DELETE", saved["id"]),
            ("GET", f"{saved['id']}/subscription"), ("DELETE", f"{saved['id']}/subscription"),
        ):  # fmt: skip
            expect_problem(await other.request(method, f"{PATH}/{path}"), 404)
        taken = await other.post(f"{PATH}/{saved['id']}/subscription", {"url": HOOK})
        expect_problem(taken, 404)
        assert (await other.get(PATH)).json()["items"] == []
    assert (await reader.get(f"{PATH}/{saved['id']}")).status_code == 200


@pytest.mark.parametrize(
    ("field", "value"), [("request.query", ""), ("request.limit", 51), ("request.query_embedding", [1.0])]
)
async def test_a_search_that_could_never_run_is_not_saved(reader: Caller, field: str, value: Any) -> None:
    request = {"query": "harbour", field.removeprefix("request."): value}
    expect_fields(await reader.post(PATH, {"name": "n", "request": request}), field)
    assert (await reader.get(PATH)).json()["items"] == []
    await save(reader, limit=50, query_embedding=[1.0] * 16)


async def test_a_search_over_the_tenants_limits_is_not_saved(admin: Caller) -> None:
    await admin.patch("/admin/settings", {"max_limit": 5})
    expect_fields(await admin.post(PATH, {"name": "n", "request": {"query": "x", "limit": 6}}), "request.limit")


async def test_a_request_over_the_tenants_lowered_limits_is_refused_when_run(admin: Caller, reader: Caller) -> None:
    saved = await save(reader, limit=20)
    await admin.patch("/admin/settings", {"max_limit": 10})
    expect_fields(await reader.post(f"{PATH}/{saved['id']}/run"), "limit")
    open_limit = await save(reader, name="open")
    assert (await reader.post(f"{PATH}/{open_limit['id']}/run")).status_code == 200


async def test_a_call_without_the_right_to_read_pauses_the_callers_subscription(
    reader: Caller, http: httpx.AsyncClient, api_tenant: Tenant, api_services: Services
) -> None:
    saved = await save(reader)
    path = f"{PATH}/{saved['id']}/subscription"
    await reader.post(path, {"url": HOOK})

    async def state() -> str:
        await api_services.subscriptions.close()
        found = await api_services.subscriptions.get(api_tenant.id, "rita", UUID(saved["id"]))
        return found.state

    assert await state() == "active"
    platform = Caller(http, api_tenant.id, make_token(api_tenant.id, Role.PLATFORM_ADMIN, subject="rita"))
    expect_problem(await platform.get(PATH), 403)
    assert await state() == "active", "another token of the same person's says nothing of this one"
    claims = {"sub": "rita", "tenant_id": str(api_tenant.id), "roles": ["auditor"], "exp": int(time.time()) + 60}
    lowered = Caller(http, api_tenant.id, forge(claims, key=SECRET.encode()))
    expect_problem(await lowered.get(PATH), 403)
    assert await state() == "paused"
    assert (await reader.get(PATH)).status_code == 200
    assert await state() == "active"


async def give(caller: Caller, search: str, entry: str, relevant: Any = True) -> Any:
    body = {"search_id": search, "entry_id": entry, "relevant": relevant}
    return await caller.post("/knowledge/feedback", body)


async def test_feedback_on_an_entry_the_caller_did_not_find_is_refused(
    admin: Caller, reader: Caller, stranger: Caller
) -> None:
    entry = await admin.add("The harbour opens at six")
    other = await admin.add("Something else")
    search = (await reader.search("harbour", mode="keyword"))["metadata"]["search_id"]
    unknown = expect_problem(await give(reader, str(uuid4()), entry["id"]), 404)
    for caller in (admin, stranger):
        refused = expect_problem(await give(caller, search, entry["id"]), 404)
        assert refused["detail"] == unknown["detail"]
    expect_fields(await give(reader, search, other["id"]), "entry_id")
    expect_fields(await give(reader, search, str(uuid4())), "entry_id")
    assert (await admin.get("/admin/feedback")).json()["disliked"] == []
