"""What response headers tell browsers: who may call, what may be cached, and what a page may load."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from asgi_lifespan import LifespanManager
from fastapi import FastAPI

from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.main import create_app
from app.settings import IngestionSettings, ServerSettings, Settings
from tests.fixtures.http.callers import Caller, open_client
from tests.fixtures.http.expectations import expect_problem
from tests.fixtures.http.routes import list_endpoints

ORIGIN = "https://app.example.com"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}


async def test_answers_are_neither_cached_nor_embedded(admin: Caller) -> None:
    entry = await admin.add("The harbour")
    for answer in (
        await admin.get(f"/knowledge/entries/{entry['id']}"),
        await admin.post("/knowledge/search", {"query": "harbour"}),
        await admin.post("/knowledge/search", {}),
        await admin.get("/nothing"),
        await admin.http.get("/admin/stats"),
        await admin.http.get("/healthz"),
    ):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert not [name for name in answer.headers if name.startswith("access-control")]


def read_policy(page: httpx.Response) -> dict[str, list[str]]:
    """The sources that a page's policy allows, by directive."""
    directives = page.headers["content-security-policy"].split(";")
    return {name: sources for name, *sources in (directive.split() for directive in directives)}


async def test_the_documentation_may_run_only_its_own_script(http: httpx.AsyncClient) -> None:
    page = await http.get("/docs")
    policy = read_policy(page)
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == ["'none'"]
    inline = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    assert len(inline) == 2
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in inline]
    assert policy["script-src"] == ["'self'", *hashes]
    assert policy["connect-src"] == ["'self'"]
    assert not re.search(r"\son\w+\s*=", page.text)
    sources = {source for name, allowed in policy.items() for source in allowed if name != "script-src"}
    assert sources <= {"'none'", "'self'", "data:", "'unsafe-inline'"}
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["referrer-policy"] == "no-referrer"


async def test_the_documentations_files_are_local_and_cacheable(http: httpx.AsyncClient) -> None:
    page = await http.get("/docs")
    files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(files) >= 2
    for file in files:
        assert file.startswith("/docs/files/")
        answer = await http.get(file)
        assert answer.headers["cache-control"] == "public, max-age=86400"
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_other_origins_may_not_call_unless_configured(http: httpx.AsyncClient) -> None:
    for origin in (ORIGIN, "null", "http://localhost:3000", "http://service.test"):
        answer = await http.options("/knowledge/search", headers={"Origin": origin, **PREFLIGHT})
        expect_problem(answer, 405)
        simple = await http.get("/healthz", headers={"Origin": origin})
        for headers in (answer.headers, simple.headers):
            assert not [name for name in headers if name.startswith("access-control")]


@pytest.fixture
async def open_to_one(api_services: Services, verifier: TokenVerifier) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application that pages of `ORIGIN` may call."""
    settings = Settings(ingestion=IngestionSettings(worker=False), server=ServerSettings(cors_origins=(ORIGIN,)))
    app = create_app(settings, api_services, verifier)
    async with LifespanManager(app), open_client(app) as client:
        yield client


async def test_a_page_of_a_configured_origin_may_call(open_to_one: httpx.AsyncClient) -> None:
    answer = await open_to_one.options("/knowledge/search", headers={"Origin": ORIGIN, **PREFLIGHT})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert "access-control-allow-credentials" not in answer.headers
    refused = await open_to_one.post("/knowledge/search", headers={"Origin": ORIGIN}, json={})
    assert expect_problem(refused, 401)["request_id"] == refused.headers["x-request-id"]
    assert refused.headers["access-control-allow-origin"] == ORIGIN
    assert "x-request-id" in refused.headers["access-control-expose-headers"].lower()


async def test_a_page_may_send_what_every_endpoint_and_the_tools_protocol_take(
    open_to_one: httpx.AsyncClient, app: FastAPI
) -> None:
    methods = {method for route in list_endpoints(app) for method in route.methods or ()}
    assert {"PUT", "PATCH"} < methods
    headers = "authorization, content-type, if-match, mcp-protocol-version, mcp-method, mcp-name"
    for method in methods:
        asked = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": headers}
        answer = await open_to_one.options("/mcp", headers={"Origin": ORIGIN, **asked})
        assert answer.status_code == 200, (method, answer.text)


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "https://app.example.com.evil.example", "http://app.example.com", "null"]
)  # fmt: skip
async def test_a_page_of_any_other_origin_may_not(open_to_one: httpx.AsyncClient, origin: str) -> None:
    answer = await open_to_one.options("/knowledge/search", headers={"Origin": origin, **PREFLIGHT})
    assert answer.status_code == 400
    simple = await open_to_one.get("/healthz", headers={"Origin": origin})
    for headers in (answer.headers, simple.headers):
        assert "access-control-allow-origin" not in headers
