"""Who may do what."""

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import cast, get_args
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi import FastAPI

from app.auth.issuing import read_token_id
from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import NewRevocation, Tenant
from app.contract.keys import KeyRole, NewKey
from app.db.database import Database
from app.db.session import PlatformSession, TenantSession
from app.knowledge.audit import AuditTrail
from app.knowledge.tenants import directory
from app.knowledge.tenants.directory import TenantDirectory
from tests.api.endpoints import OPEN, PLATFORM, TABLE, UNDESCRIBED, UNKNOWN, save_search
from tests.fixtures.database.cluster import TestDatabase, connected
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
        "key_id": UNKNOWN,
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
    endpoint: str, http: httpx.AsyncClient, api_tenant: Tenant, api_services: Services, ids: dict[str, str]
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
    for kind in set(get_args(KeyRole)) - allowed:
        made = await api_services.keys.create(api_tenant.id, NewKey(name=kind, role=kind), actor="test")
        expect_problem(await Caller(http, api_tenant.id, made.key).request(method, path, **request), 403)
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
    "authorization", ["", "Bearer", "Bearer ", "Bearer x", "Basic YTpi", "Bearer a.b.c", "Bearer " + "a" * 100_000]
)
async def test_a_malformed_authorization_is_refused(http: httpx.AsyncClient, authorization: str) -> None:
    answer = await http.get("/knowledge/entries", headers={"Authorization": authorization})
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


PATH = "/admin/revoked-tokens"
PLATFORM_PATH = "/admin/platform/revoked-tokens"


async def read(http: httpx.AsyncClient, token: str, path: str = "/knowledge/entries") -> httpx.Response:
    return await http.get(path, headers={"Authorization": f"Bearer {token}"})


class Overtaken:
    """A database in which something happens after a read, before the reader continues."""

    def __init__(self, database: Database, happens: Callable[[], Awaitable[object]]) -> None:
        self._database, self._happens = database, happens
        self.tell_of_deleted = database.tell_of_deleted

    @contextlib.asynccontextmanager
    async def tenant_session(self, tenant_id: UUID) -> AsyncIterator[TenantSession]:
        async with self._database.tenant_session(tenant_id) as session:
            yield session
        await self._happens()

    @contextlib.asynccontextmanager
    async def platform_session(self) -> AsyncIterator[PlatformSession]:
        async with self._database.platform_session() as session:
            yield session
        await self._happens()


async def test_a_revoked_token_is_refused_everywhere_and_others_are_not(
    http: httpx.AsyncClient, admin: Caller, stranger: Caller
) -> None:
    leaked, other = (make_token(admin.tenant_id, Role.TENANT_ADMIN) for _ in range(2))
    assert (await read(http, leaked)).status_code == 200
    answer = await admin.post(PATH, {"token_id": read_token_id(leaked)})
    assert answer.status_code == 200
    assert answer.json()["token_id"] == read_token_id(leaked)
    for path in ("/knowledge/entries", "/admin/stats"):
        assert expect_problem(await read(http, leaked, path), 401)["detail"] == "the token was revoked"
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Authorization": f"Bearer {leaked}", "Accept": "application/json, text/event-stream"}
    assert (await http.post("/mcp", json=call, headers=headers)).status_code == 401
    assert (await read(http, other)).status_code == 200
    # Another tenant's list does not concern this tenant's tokens.
    await stranger.post(PATH, {"token_id": read_token_id(other)})
    assert (await read(http, other)).status_code == 200


async def test_another_process_refuses_it_when_its_context_of_the_tenant_expires(
    admin: Caller, api_services: Services
) -> None:
    now = 0.0
    database = api_services.database
    elsewhere = TenantDirectory(database, AuditTrail(database), default_model_id=1, clock=lambda: now)
    assert "leaked" not in (await elsewhere.context(admin.own_tenant)).revoked_tokens
    await admin.post(PATH, {"token_id": "leaked"})
    now = 2.0
    assert "leaked" in (await elsewhere.context(admin.own_tenant)).revoked_tokens


async def test_a_revocation_while_the_list_is_read_counts_at_once(admin: Caller, api_services: Services) -> None:
    tenant_id, database = admin.own_tenant, api_services.database

    async def revoke() -> None:
        tenants.database = database  # nothing overtakes the revocation itself
        await tenants.revoke(tenant_id, NewRevocation(token_id="leaked"), actor="test")

    trail = AuditTrail(database)
    tenants = TenantDirectory(cast("Database", Overtaken(database, revoke)), trail, default_model_id=1)
    assert not (await tenants.context(tenant_id)).revoked_tokens, "it was read before"
    assert (await tenants.context(tenant_id)).revoked_tokens == {"leaked"}


async def test_a_platform_admins_revocation_while_the_list_is_read_counts_at_once(api_services: Services) -> None:
    async def revoke() -> None:
        if not happened:
            happened.append(True)
            await platform.revoke(NewRevocation(token_id="leaked-while-read"), actor="test")

    happened: list[bool] = []
    overtaken = Overtaken(api_services.database, revoke)
    platform = directory.PlatformRevocations(cast("Database", overtaken))
    assert not await platform.contains("leaked-while-read"), "it was read before"
    assert await platform.contains("leaked-while-read")


async def test_a_revocation_ends_when_the_token_has_expired(admin: Caller, api_services: Services) -> None:
    until = datetime.now(UTC) + timedelta(seconds=0.3)
    revoked = await api_services.tenants.revoke(
        admin.own_tenant, NewRevocation(token_id="short", expires_at=until), actor="test"
    )
    assert revoked.expires_at == until
    again = await api_services.tenants.revoke(admin.own_tenant, NewRevocation(token_id="long"), actor="test")
    assert again.expires_at - again.revoked_at > timedelta(days=3600)
    while datetime.now(UTC) < until:
        api_services.tenants.forget(admin.own_tenant)
        await api_services.tenants.context(admin.own_tenant)
    api_services.tenants.forget(admin.own_tenant)
    assert (await api_services.tenants.context(admin.own_tenant)).revoked_tokens == {"long"}


async def test_a_second_revocation_does_not_shorten_the_first(admin: Caller) -> None:
    first = (await admin.post(PATH, {"token_id": "leaked"})).json()
    soon = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    again = (await admin.post(PATH, {"token_id": "leaked", "expires_at": soon})).json()
    assert again == first


async def test_a_tenants_list_is_bounded(
    admin: Caller, api_services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "MAX_REVOKED", 3)
    for number in (1, 2, 3, 3, 1):
        assert (await admin.post(PATH, {"token_id": f"token-{number}"})).status_code == 200
    expect_problem(await admin.post(PATH, {"token_id": "token-4"}), 409)
    context = await api_services.tenants.context(admin.own_tenant)
    assert context.revoked_tokens == {"token-1", "token-2", "token-3"}


async def test_revoked_tokens_are_listed_for_their_tenant_only(admin: Caller, stranger: Caller) -> None:
    revoked = [(await admin.post(PATH, {"token_id": f"token-{n}"})).json() for n in range(3)]
    await stranger.post(PATH, {"token_id": "theirs"})
    first = (await admin.get(f"{PATH}?limit=2")).json()
    rest = (await admin.get(f"{PATH}?limit=2&cursor={first['next_cursor']}")).json()
    assert first["items"] + rest["items"] == revoked[::-1]
    assert rest["next_cursor"] is None
    assert [token["token_id"] for token in (await stranger.get(PATH)).json()["items"]] == ["theirs"]
    expect_problem(await admin.get(f"{PATH}?cursor=x"), 422)


async def test_a_platform_admins_token_is_revoked_alone(
    http: httpx.AsyncClient, platform: Caller, admin: Caller
) -> None:
    leaked, other = (make_token(None, Role.PLATFORM_ADMIN) for _ in range(2))
    of_tenant = make_token(admin.tenant_id, Role.TENANT_ADMIN)
    assert (await read(http, leaked, "/admin/tenants")).status_code == 200
    for token in (leaked, of_tenant):
        answer = await platform.post(PLATFORM_PATH, {"token_id": read_token_id(token)})
        assert answer.json()["token_id"] == read_token_id(token)
    for path in ("/admin/tenants", PLATFORM_PATH, "/knowledge/entries"):
        assert expect_problem(await read(http, leaked, path), 401)["detail"] == "the token was revoked"
    assert (await read(http, other, "/admin/tenants")).status_code == 200
    assert (await read(http, of_tenant)).status_code == 200, "a tenant's tokens are on the tenant's list"
    listed = (await platform.get(f"{PLATFORM_PATH}?limit=200")).json()["items"]
    assert [token["token_id"] for token in listed[:2]] == [read_token_id(of_tenant), read_token_id(leaked)]
    # A tenant cannot revoke a platform admin's token.
    await admin.post(PATH, {"token_id": read_token_id(other)})
    assert (await read(http, other, "/admin/tenants")).status_code == 200


async def test_another_process_refuses_a_platform_admins_token_within_its_time(
    platform: Caller, api_services: Services
) -> None:
    now = 0.0
    elsewhere = directory.PlatformRevocations(api_services.database, clock=lambda: now)
    assert not await elsewhere.contains("leaked-elsewhere")
    await platform.post(PLATFORM_PATH, {"token_id": "leaked-elsewhere"})
    assert not await elsewhere.contains("leaked-elsewhere")
    now = 2.0
    assert await elsewhere.contains("leaked-elsewhere")


async def test_the_platforms_list_is_bounded_and_forgets_expired_tokens(
    platform: Caller, api_services: Services, api_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api_services.platform_revocations.revoke(NewRevocation(token_id="short"), actor="test")
    listed = (await api_services.platform_revocations.list_revoked(limit=200, reader="test")).items
    assert "short" in {token.token_id for token in listed}
    async with connected(api_database.superuser_dsn) as superuser:
        await superuser.execute(
            "update revoked_platform_tokens set expires_at = clock_timestamp() where token_id = 'short'"
        )
    listed = (await api_services.platform_revocations.list_revoked(limit=200, reader="test")).items
    assert "short" not in {token.token_id for token in listed}
    monkeypatch.setattr(directory, "MAX_REVOKED", len(listed) + 1)
    for _ in range(2):
        assert (await platform.post(PLATFORM_PATH, {"token_id": "the last"})).status_code == 200
    expect_problem(await platform.post(PLATFORM_PATH, {"token_id": "one more"}), 409)
