"""Revoked tokens: refused at once here, and within two seconds by other processes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID

import httpx
import pytest

from app.auth.issuing import read_token_id
from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import NewRevocation
from app.db.database import Database
from app.db.session import PlatformSession, TenantSession
from app.knowledge.audit import AuditTrail
from app.knowledge.tenants import revocations
from app.knowledge.tenants.directory import TenantDirectory
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.http.expectations import expect_problem

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
    assert admin.tenant_id is not None
    database = api_services.database
    elsewhere = TenantDirectory(database, AuditTrail(database), default_model_id=1, clock=lambda: now)
    assert "leaked" not in (await elsewhere.context(admin.tenant_id)).revoked_tokens
    await admin.post(PATH, {"token_id": "leaked"})
    now = 2.0
    assert "leaked" in (await elsewhere.context(admin.tenant_id)).revoked_tokens


async def test_a_revocation_while_the_list_is_read_counts_at_once(admin: Caller, api_services: Services) -> None:
    assert admin.tenant_id is not None
    tenant_id, database = admin.tenant_id, api_services.database

    async def revoke() -> None:
        if not (await own.list_revoked(tenant_id)).items:
            await own.revoke(tenant_id, NewRevocation(token_id="leaked"), actor="test")

    trail = AuditTrail(database)
    tenants = TenantDirectory(cast("Database", Overtaken(database, revoke)), trail, default_model_id=1)
    own = revocations.TokenRevocations(database, trail, tenants)
    assert not (await tenants.context(tenant_id)).revoked_tokens, "it was read before"
    assert (await tenants.context(tenant_id)).revoked_tokens == {"leaked"}


async def test_a_platform_admins_revocation_while_the_list_is_read_counts_at_once(
    api_services: Services,
) -> None:
    async def revoke() -> None:
        if not happened:
            happened.append(True)
            await platform.revoke(NewRevocation(token_id="leaked-while-read"), actor="test")

    happened: list[bool] = []
    overtaken = Overtaken(api_services.database, revoke)
    platform = revocations.PlatformRevocations(cast("Database", overtaken))
    assert not await platform.contains("leaked-while-read"), "it was read before"
    assert await platform.contains("leaked-while-read")


async def test_a_revocation_ends_when_the_token_has_expired(admin: Caller, api_services: Services) -> None:
    assert admin.tenant_id is not None
    until = datetime.now(UTC) + timedelta(seconds=0.3)
    revoked = await api_services.revocations.revoke(
        admin.tenant_id, NewRevocation(token_id="short", expires_at=until), actor="test"
    )
    assert revoked.expires_at == until
    again = await api_services.revocations.revoke(admin.tenant_id, NewRevocation(token_id="long"), actor="test")
    assert again.expires_at - again.revoked_at > timedelta(days=3600)
    while datetime.now(UTC) < until:
        api_services.tenants.forget(admin.tenant_id)
        await api_services.tenants.context(admin.tenant_id)
    api_services.tenants.forget(admin.tenant_id)
    assert (await api_services.tenants.context(admin.tenant_id)).revoked_tokens == {"long"}


async def test_a_second_revocation_does_not_shorten_the_first(admin: Caller) -> None:
    first = (await admin.post(PATH, {"token_id": "leaked"})).json()
    soon = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    again = (await admin.post(PATH, {"token_id": "leaked", "expires_at": soon})).json()
    assert again == first


async def test_bad_revocations_are_refused(admin: Caller) -> None:
    past = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    for body in (
        {"token_id": ""},
        {"token_id": "x" * 256},
        {"token_id": "nul\x00"},
        {"token_id": "a", "expires_at": past},
        {"token_id": "a", "expires_at": "9999-12-31T00:00:00Z"},
        {"token_id": "a", "expires_at": "2030-01-01T00:00:00"},
        {},
    ):
        expect_problem(await admin.post(PATH, body), 422)


async def test_a_tenants_list_is_bounded(
    admin: Caller, api_services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revocations, "MAX_REVOKED", 3)
    for number in (1, 2, 3, 3, 1):
        assert (await admin.post(PATH, {"token_id": f"token-{number}"})).status_code == 200
    expect_problem(await admin.post(PATH, {"token_id": "token-4"}), 409)
    assert admin.tenant_id is not None
    context = await api_services.tenants.context(admin.tenant_id)
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
    elsewhere = revocations.PlatformRevocations(api_services.database, clock=lambda: now)
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
    monkeypatch.setattr(revocations, "MAX_REVOKED", len(listed) + 1)
    for _ in range(2):
        assert (await platform.post(PLATFORM_PATH, {"token_id": "the last"})).status_code == 200
    expect_problem(await platform.post(PLATFORM_PATH, {"token_id": "one more"}), 409)
