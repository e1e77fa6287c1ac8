"""Unknown query parameters are refused on every path with a token, as unknown fields of a body are."""

from __future__ import annotations

import re

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from app.auth.principal import Role
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.http.expectations import expect_fields
from tests.fixtures.http.routes import list_endpoints

OPEN = ("/healthz", "/readyz")
"""Health checks: load balancers may add parameters of their own."""


async def test_every_path_refuses_an_unknown_parameter(app: FastAPI, admin: Caller, http: httpx.AsyncClient) -> None:
    platform = Caller(http, None, make_token(None, Role.PLATFORM_ADMIN, subject="paula"))
    for route in list_endpoints(app):
        if not isinstance(route, APIRoute) or not route.include_in_schema or route.path in OPEN:
            continue
        caller = platform if route.path.startswith(("/admin/tenants", "/admin/platform")) else admin
        path = re.sub(r"\{\w+\}", "0b6f0a5e-5b0c-4d0a-9f0e-3a1d2c4b5e6f", route.path)
        for method in route.methods or ():
            body = expect_fields(await caller.request(method, f"{path}?surprise=1"), "surprise")
            assert "unknown query parameter" in body["detail"], (method, path)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_the_allowed_names_and_the_closest_one_are_named(admin: Caller, method: str) -> None:
    answer = await admin.request(method, "/knowledge/entries?tags=pay&limit=5&q=1")
    assert answer.status_code == 422
    if method == "GET":
        body = expect_fields(answer, "tags", "q")
        messages = {error["field"]: error["message"] for error in body["errors"]}
        assert messages["tags"].startswith("unknown query parameter; did you mean tag? must be one of asset_id, ")
        assert "did you mean" not in messages["q"]


async def test_a_path_without_parameters_says_so(admin: Caller) -> None:
    body = expect_fields(await admin.get("/admin/stats?days=" + "9" * 3_000), "days")
    assert body["errors"][0]["message"] == "unknown query parameter; the path has no query parameters"


async def test_known_parameters_are_accepted(admin: Caller) -> None:
    for query in (
        "limit=1&tag=x&entry_type=fact",
        "external_id=x",
        "asset_id=0b6f0a5e-5b0c-4d0a-9f0e-3a1d2c4b5e6f",
    ):
        assert (await admin.get(f"/knowledge/entries?{query}")).status_code == 200


async def test_a_caller_without_a_token_learns_nothing_of_the_parameters(http: httpx.AsyncClient) -> None:
    answer = await http.get("/knowledge/entries?surprise=1")
    assert answer.status_code == 401
    assert "surprise" not in answer.text
