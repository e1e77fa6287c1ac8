"""Who may do what: every endpoint with every role, and access to what others own."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import Tenant
from tests.api.endpoints import OPEN, PLATFORM, TABLE, UNDESCRIBED, UNKNOWN, save_search
from tests.fixtures.http.callers import SECRET, Caller, make_token
from tests.fixtures.http.expectations import expect_problem
from tests.fixtures.http.routes import list_endpoints, list_mounts
from tests.fixtures.identity.forgery import forge


@pytest.fixture
async def ids(admin: Caller) -> dict[str, str]:
    """Ids for the placeholders of a path: existing things where possible."""
    entry = await admin.post("/knowledge/entries", {"content": "the entry"})
    asset = await admin.upload("a.txt", b"the asset", "text/plain")
    saved = await save_search(admin)
    await admin.request("PUT", "/knowledge/sources/shelf", json={"items": []})
    return {
        "entry_id": entry.json()["id"],
        "asset_id": asset.json()["id"],
        "saved_search_id": saved,
        "name": "shelf",
        "search_id": UNKNOWN,
        "erasure_id": UNKNOWN,
        "tenant_id": UNKNOWN,
    }


def forge_token(tenant_id: object, roles: list[str]) -> str:
    """A correctly signed token that the service itself would not issue."""
    claims = {"sub": "ada", "tenant_id": str(tenant_id), "roles": roles, "exp": int(time.time()) + 60}
    return forge(claims, key=SECRET.encode())


def test_every_endpoint_has_a_row_in_the_table(app: FastAPI) -> None:
    routes = {f"{m} {route.path}" for route in list_endpoints(app) for m in route.methods or {"ANY"}}
    pages = {route for route in routes if route.split("/")[1] == "console"}  # they have a table of their own
    assert routes - pages == set(TABLE) | OPEN | UNDESCRIBED
    assert list_mounts(app) == ["/docs/files", "/console/files"]


async def test_no_endpoint_accepts_a_token_that_is_forged_or_without_a_tenant(
    http: httpx.AsyncClient, admin: Caller, platform: Caller, ids: dict[str, str]
) -> None:
    assert (await platform.delete(f"/admin/tenants/{admin.tenant_id}")).status_code == 204
    claims = {"sub": "ada", "tenant_id": str(admin.tenant_id), "roles": list(Role), "exp": time.time() + 60}
    forged = [
        forge(claims, key=b"x" * 40),
        forge(claims, {"alg": "none"}, key=SECRET.encode()),
        forge({**claims, "exp": time.time() - 60}, key=SECRET.encode()),
    ]
    for endpoint, (allowed, request, _) in TABLE.items():
        method, path = endpoint.format(**ids).split(" ")
        for token in forged:
            answer = await Caller(http, None, token).request(method, path, **request)
            expect_problem(answer, 401)
        if allowed is not PLATFORM:
            deleted = await admin.request(method, path, **request)
            never = Caller(http, None, make_token(uuid4(), Role.TENANT_ADMIN))
            for answer in (deleted, await never.request(method, path, **request)):
                assert "tenant does not exist" in expect_problem(answer, 401)["detail"]


@pytest.mark.parametrize("endpoint", TABLE)
async def test_an_endpoint_answers_each_role_as_in_the_table(
    endpoint: str, http: httpx.AsyncClient, api_tenant: Tenant, ids: dict[str, str]
) -> None:
    allowed, request, expected = TABLE[endpoint]
    method, path = endpoint.format(**ids).split(" ")
    expect_problem(await http.request(method, path, **request), 401)
    without_role = Caller(http, api_tenant.id, forge_token(api_tenant.id, []))
    expect_problem(await without_role.request(method, path, **request), 403)
    stranger = Caller(http, api_tenant.id, forge_token(api_tenant.id, ["auditor", "superuser"]))
    expect_problem(await stranger.request(method, path, **request), 403)
    both = Caller(http, api_tenant.id, make_token(api_tenant.id, Role.PLATFORM_ADMIN, Role.TENANT_ADMIN))
    answer = await both.request(method, path, **request)
    assert answer.status_code == (expected if allowed is PLATFORM else 403)
    for role in set(Role) - allowed:
        caller = Caller(http, api_tenant.id, make_token(api_tenant.id, role))
        expect_problem(await caller.request(method, path, **request), 403)
    for role in sorted(allowed):
        caller = Caller(http, api_tenant.id, make_token(api_tenant.id, role))
        answer = await caller.request(method, path, **request)
        # The second caller does not find what the first one deleted.
        gone = method == "DELETE" and role != min(allowed)
        assert answer.status_code == (404 if gone else expected), (role, answer.text)


OWNED = ("entry_id", "asset_id", "saved_search_id")


@pytest.mark.parametrize("endpoint", [e for e in TABLE if any(name in e for name in OWNED)])
async def test_what_another_tenant_owns_is_answered_like_an_unknown_id(
    endpoint: str, stranger: Caller, ids: dict[str, str]
) -> None:
    _, request, _ = TABLE[endpoint]
    method, path = endpoint.split(" ")
    unknown = await stranger.request(method, path.format(**dict.fromkeys(OWNED, UNKNOWN)), **request)
    foreign = await stranger.request(method, path.format(**ids), **request)
    assert foreign.status_code == unknown.status_code == (200 if "related" in path else 404)
    bodies = [foreign.json(), unknown.json()]
    for body in bodies:
        body.pop("request_id", None)
    assert bodies[0] == bodies[1]
    assert foreign.headers.keys() == unknown.headers.keys()


async def test_a_strangers_requests_change_nothing(admin: Caller, stranger: Caller, ids: dict[str, str]) -> None:
    path = f"/knowledge/entries/{ids['entry_id']}"
    before = (await admin.get(path)).text
    await stranger.patch(path, {"content": "taken over"})
    await stranger.delete(path)
    await stranger.delete(f"/knowledge/assets/{ids['asset_id']}")
    assert (await admin.get(path)).text == before
    assert (await admin.get(f"/knowledge/assets/{ids['asset_id']}")).status_code == 200
    assert (await stranger.get("/knowledge/entries")).json()["items"] == []
    assert (await stranger.get("/knowledge/assets")).json()["items"] == []
    assert await stranger.find("entry") == []


async def test_an_entry_cannot_refer_to_another_tenants_entry(stranger: Caller, ids: dict[str, str]) -> None:
    for field, value in (
        ("parent_id", ids["entry_id"]),
        ("superseded_by_id", ids["entry_id"]),
        ("source_ids", [ids["entry_id"]]),
    ):
        answer = await stranger.post("/knowledge/entries", {"content": "mine", field: value})
        body = expect_problem(answer, 422)
        assert body["errors"][0]["field"] == field
        unknown = [UNKNOWN] if isinstance(value, list) else UNKNOWN
        other = expect_problem(await stranger.post("/knowledge/entries", {"content": "mine", field: unknown}), 422)
        assert body["errors"] == other["errors"]


async def test_no_tenant_can_be_named_in_a_request(admin: Caller, stranger: Caller) -> None:
    await admin.add("The harbour opens at six")
    named = {"tenant_id": str(admin.tenant_id)}
    asked = {"query": "harbour"}
    found = await stranger.post("/knowledge/search", asked, headers={"X-Tenant-Id": named["tenant_id"], **named})
    assert found.json()["results"] == []
    refused = await stranger.post("/knowledge/search", asked, params=named)
    assert [error["field"] for error in expect_problem(refused, 422)["errors"]] == ["tenant_id"]
    refused = await stranger.post("/knowledge/search", asked | named)
    assert expect_problem(refused, 422)["errors"] == [{"field": "tenant_id", "message": "unknown field"}]


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", "Bearer x", "Basic YTpi", "Bearer a.b.c", "Bearer " + "a" * 100_000],
)
async def test_a_malformed_authorization_is_refused(http: httpx.AsyncClient, authorization: str) -> None:
    answer = await http.get("/knowledge/entries", headers={"Authorization": authorization})
    expect_problem(answer, 401)


async def test_an_expired_token_is_refused(http: httpx.AsyncClient, api_tenant: Tenant) -> None:
    claims = {
        "sub": "ada",
        "tenant_id": str(api_tenant.id),
        "roles": ["reader"],
        "exp": int(time.time()) - 3600,
    }
    answer = await Caller(http, api_tenant.id, forge(claims, key=SECRET.encode())).get("/knowledge/entries")
    expect_problem(answer, 401)


@pytest.mark.parametrize("body", [b'{"query":', b'"' + b"x" * (40 << 20) + b'"'], ids=["broken", "40 MB"])
@pytest.mark.parametrize("path", ["/knowledge/search", "/knowledge/assets"])
async def test_a_caller_without_a_token_is_refused_before_the_body_is_validated(
    http: httpx.AsyncClient, path: str, body: bytes
) -> None:
    answer = await http.post(path, content=body, headers={"Content-Type": "application/json"})
    expect_problem(answer, 401)


async def test_the_body_of_a_caller_without_the_role_is_not_read(reader: Caller) -> None:
    read = False

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        read = True
        yield b"{}"

    answer = await reader.post("/knowledge/entries", content=body(), headers={"Content-Type": "application/json"})
    expect_problem(answer, 403)
    assert not read


async def test_a_deleted_tenants_token_is_refused(admin: Caller, platform: Caller, api_services: Services) -> None:
    await admin.add("soon gone")
    assert (await platform.delete(f"/admin/tenants/{admin.tenant_id}")).status_code == 204
    for method, path in (("GET", "/knowledge/entries"), ("GET", "/admin/stats")):
        expect_problem(await admin.request(method, path), 401)
    expect_problem(await admin.post("/knowledge/search", {"query": "gone"}), 401)


async def test_a_token_of_a_tenant_that_never_existed_is_refused(http: httpx.AsyncClient) -> None:
    caller = Caller(http, None, make_token(uuid4(), Role.TENANT_ADMIN))
    expect_problem(await caller.get("/knowledge/entries"), 401)
