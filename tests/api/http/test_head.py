"""HEAD, which is GET without its body."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI

from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_problem

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
        ("/docs", "POST", "GET, HEAD"),
        ("/knowledge/entries", "DELETE", "GET, HEAD, POST"),
        ("/knowledge/search", "HEAD", "POST"),
        ("/mcp", "HEAD", "POST"),
    ],
)
async def test_allow_names_head_where_get_is_served(admin: Caller, path: str, method: str, allowed: str) -> None:
    answer = await admin.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == allowed


async def test_head_is_not_a_documented_operation(app: FastAPI) -> None:
    assert not [path for path, methods in app.openapi()["paths"].items() if "head" in methods]


async def test_a_refused_method_is_still_a_problem(admin: Caller) -> None:
    expect_problem(await admin.request("PUT", "/knowledge/entries"), 405)


async def test_the_log_names_the_method_and_the_route(admin: Caller, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "app.api"):
        await admin.request("HEAD", "/knowledge/entries")
    (record,) = [r for r in caplog.records if r.message == "request"]
    assert (vars(record)["method"], vars(record)["route"]) == ("HEAD", "/knowledge/entries")
    assert vars(record)["tenant_id"] == str(admin.tenant_id)
