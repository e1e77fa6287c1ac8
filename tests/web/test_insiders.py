"""Only the private door makes a caller a command of this machine; nothing that a request contains does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.main import create_app
from app.settings import Settings
from app.web.insiders import INSIDER, Insider, PrivateDoor
from tests.fixtures.http.callers import SECRET
from tests.fixtures.http.serving import serve

KEY = "k" * 64
PATHS = ("/knowledge/entries", "/admin/stats", "/admin/tenants", "/admin/platform/revoked-tokens")


@pytest.fixture
async def app(settings: Settings, api_services: Services) -> FastAPI:
    """The whole application."""
    return create_app(settings, api_services, TokenVerifier(secret=SECRET))


SMUGGLED: list[dict[str, str]] = [
    {"X-KB-Tenant": "harbour"},
    {"X-KB-Tenant": "harbour", "Authorization": f"Bearer {KEY}"},
    {INSIDER: "harbour", "X-KB-Tenant": "harbour"},
    {"Knowledge-Insider": "harbour", "X-Forwarded-For": "unix:", "X-KB-Access": "all"},
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("headers", SMUGGLED)
@pytest.mark.parametrize("path", PATHS)
async def test_headers_make_no_caller_an_insider(app: FastAPI, path: str, headers: dict[str, str]) -> None:
    async with serve(app) as url, httpx.AsyncClient(base_url=url) as http:
        for method in ("GET", "HEAD"):
            assert (await http.request(method, path, headers=headers)).status_code == 401
        answer = await http.get(f"{path}?{INSIDER}=harbour&tenant=harbour", headers=headers)
        assert answer.status_code == 401


@pytest.mark.parametrize("headers", SMUGGLED)
async def test_tools_and_pages_have_no_insiders(app: FastAPI, headers: dict[str, str]) -> None:
    async with serve(app) as url, httpx.AsyncClient(base_url=url) as http:
        assert (await http.post("/mcp", json={}, headers=headers)).status_code == 401
        page = await http.get("/console/entries", headers=headers)
        assert page.status_code in (302, 303, 401)


async def test_a_state_or_a_value_of_another_type_makes_no_insider(app: FastAPI) -> None:
    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[dict[str, Any]]:
        yield {INSIDER: Insider("harbour"), "insider": Insider("harbour")}

    async def disguise(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, INSIDER: {"slug": "harbour"}}, receive, send)

    async with app.router.lifespan_context(app):
        for outer in (
            Starlette(routes=[Mount("/kb", app)], lifespan=lifespan),
            Starlette(routes=[Mount("/kb", disguise)]),
        ):
            async with serve(outer) as url, httpx.AsyncClient(base_url=url) as http:
                for path in PATHS:
                    answer = await http.get(f"/kb{path}", headers={"X-KB-Tenant": "harbour"})
                    assert answer.status_code == 401


async def test_the_private_door_needs_its_key_and_leads_only_to_the_api(app: FastAPI, api_services: Services) -> None:
    await api_services.tenants.create(NewTenant("private"), actor="test")
    door = PrivateDoor(app, KEY)
    transport = httpx.ASGITransport(app=door)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://door") as http:
        for given in ({}, {"Authorization": KEY}, {"Authorization": f"Bearer {KEY[:-1]}x"}, {"X-KB-Tenant": "private"}):
            for path in ("/", "/knowledge/entries", "/mcp"):
                assert (await http.get(path, headers=given)).status_code == 401
        own = {"Authorization": f"Bearer {KEY}"}
        assert (await http.get("/", headers=own)).status_code == 204
        for path in ("/mcp", "/console", "/metrics", "/openapi.json", "/knowledge", "/x/knowledge/entries"):
            assert (await http.get(path, headers=own)).status_code == 404
        found = await http.get("/knowledge/entries", headers=own | {"X-KB-Tenant": "private"})
        assert (found.status_code, found.json()["items"]) == (200, [])
        assert (await http.get("/knowledge/entries", headers=own)).status_code == 403
        assert (await http.get("/admin/tenants", headers=own | {"X-KB-Tenant": "private"})).status_code == 200
        assert (await http.get("/knowledge/entries", headers=own | {"X-KB-Tenant": "n%C3%B6"})).status_code == 404


async def test_a_request_ends_when_its_command_does() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def receive() -> Any:
        if not sent:
            sent.append(True)
            return {"type": "http.request", "body": b"{}"}
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    sent: list[bool] = []
    scope = {"type": "http", "path": "/knowledge/search", "headers": [(b"authorization", f"Bearer {KEY}".encode())]}
    await PrivateDoor(work, KEY)(scope, receive, send)
    assert ended.is_set()
