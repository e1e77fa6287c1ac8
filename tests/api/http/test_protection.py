"""Headers, HEAD, compression and protection."""

import base64
import gzip
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
from app.web.layer import MIN_BYTES
from tests.fixtures.http.callers import Caller, open_client
from tests.fixtures.http.expectations import expect_problem
from tests.fixtures.http.routes import list_endpoints

ORIGIN = "https://app.example.com"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}


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


CHANGING = {"x-request-id", "date"}


def headers_of(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in CHANGING}


@pytest.mark.parametrize(
    "path",
    [
        *("/healthz", "/readyz", "/metrics", "/docs", "/openapi.json", "/docs/files/swagger-ui.css"),
        *("/console/sign-in", "/knowledge/entries", "/admin/settings", "/admin/tenants", "/mcp", "/nothing"),
        *("/knowledge/search", "/knowledge/entries/x", "/knowledge/entries/bulk"),
    ],
)
async def test_head_is_answered_like_get_without_the_body(admin: Caller, path: str) -> None:
    got = await admin.get(path)
    told = await admin.request("HEAD", path)
    assert told.status_code == got.status_code
    changing = {"content-length"} if path in ("/metrics",) or got.status_code >= 400 else set()
    assert {n: v for n, v in headers_of(told).items() if n not in changing} == {
        n: v for n, v in headers_of(got).items() if n not in changing
    }
    assert told.content == b""


async def test_head_needs_the_same_token_as_get(http: httpx.AsyncClient) -> None:
    assert (await http.head("/knowledge/entries")).status_code == 401
    assert (await http.head("/healthz")).status_code == 200


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [
        ("/healthz", "POST", "GET, HEAD"),
        ("/knowledge/assets", "OPTIONS", "GET, HEAD, POST"),
        ("/docs", "POST", "GET, HEAD"),
        ("/knowledge/entries", "DELETE", "GET, HEAD, POST"),
        ("/knowledge/search", "HEAD", "POST"),
        ("/mcp", "HEAD", "POST"),
    ],
)
async def test_allow_names_head_where_get_is_served(admin: Caller, path: str, method: str, allowed: str) -> None:
    answer = await admin.request(method, path)
    if method != "HEAD":
        expect_problem(answer, 405)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


async def test_the_log_names_the_method_and_the_route(admin: Caller, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "app.api"):
        await admin.request("HEAD", "/knowledge/entries")
    (record,) = [r for r in caplog.records if r.message == "request"]
    assert (vars(record)["method"], vars(record)["route"]) == ("HEAD", "/knowledge/entries")
    assert vars(record)["tenant_id"] == str(admin.tenant_id)


GZIP = {"Accept-Encoding": "gzip"}
PLAIN = {"Accept-Encoding": "identity"}


@pytest.fixture
async def filled(admin: Caller) -> Caller:
    for number in range(12):
        await admin.add(f"The harbour opens at {number}. " * 30, tags=["harbour", "time"])
    return admin


async def send(caller: Caller, method: str, path: str, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    """The body as it was sent, and the headers."""
    json = {"query": "harbour", "duplicates": "show"} if method == "POST" else None
    request = caller.http.build_request(
        method, path, json=json, headers={"Authorization": f"Bearer {caller.token}", **headers}
    )
    answer = await caller.http.send(request, stream=True)
    sent = b"".join([part async for part in answer.aiter_raw()])
    assert answer.status_code == 200
    return sent, dict(answer.headers)


@pytest.mark.parametrize(("method", "path"), [("POST", "/knowledge/search"), ("GET", "/knowledge/entries")])
async def test_long_answers_are_compressed_on_request(filled: Caller, method: str, path: str) -> None:
    sent, headers = await send(filled, method, path, GZIP)
    assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
    assert int(headers["content-length"]) == len(sent)
    whole = gzip.decompress(sent)
    assert len(sent) < len(whole) / 2
    plain, headers = await send(filled, method, path, PLAIN)
    assert "content-encoding" not in headers
    assert len(plain) >= MIN_BYTES
    if method == "GET":
        assert plain == whole


async def test_a_head_request_has_the_headers_of_the_compressed_answer(filled: Caller) -> None:
    _, expected = await send(filled, "GET", "/knowledge/entries", GZIP)
    sent, headers = await send(filled, "HEAD", "/knowledge/entries", GZIP)
    assert sent == b""
    for name in ("content-encoding", "content-length", "vary"):
        assert headers[name] == expected[name]


async def test_short_answers_are_not_compressed(filled: Caller) -> None:
    short, headers = await send(filled, "GET", "/knowledge/entries?limit=1&tag=nothing", GZIP)
    assert len(short) < MIN_BYTES
    assert "content-encoding" not in headers


async def test_an_answer_with_an_etag_is_not_compressed(filled: Caller) -> None:
    long = {"n": "The harbour. " * 1000}
    entry = await filled.add("A long entry. " * 1000)
    upload = await filled.upload("a.txt", b"The quay.", "text/plain")
    asset = f"/knowledge/assets/{upload.json()['id']}"
    assert (await filled.request("PATCH", asset, json={"metadata": long})).status_code == 200
    for path in (f"/knowledge/entries/{entry['id']}", asset):
        sent, headers = await send(filled, "GET", path, GZIP)
        plain, others = await send(filled, "GET", path, PLAIN)
        assert sent == plain
        assert len(sent) >= MIN_BYTES
        assert headers["etag"] == others["etag"]
        assert not {"content-encoding", "vary"} & {*headers, *others}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.1", True),
        ("x-gzip", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("nogzip", False),
        ("br, zstd, deflate", False),
        ("identity;q=0", False),
        ("", False),
    ],
)
async def test_the_caller_decides_by_weights(filled: Caller, accepted: str, compressed: bool) -> None:
    sent, headers = await send(filled, "GET", "/knowledge/entries", {"Accept-Encoding": accepted})
    assert ("content-encoding" in headers) is compressed
    assert headers["vary"] == "Accept-Encoding"
    assert (sent[:2] == b"\x1f\x8b") is compressed


async def test_the_list_of_tools_is_compressed(admin: Caller) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    for coding, length in (("gzip", range(1_000, 25_000)), ("identity", range(50_000, 200_000))):
        answer = await admin.post("/mcp?tools=all", message, headers={**headers, "Accept-Encoding": coding})
        assert answer.headers.get("content-encoding", "identity") == coding
        assert int(answer.headers["content-length"]) in length
        assert answer.json()["result"]["tools"]
