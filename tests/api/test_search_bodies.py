"""The bodies of searches: their media types, and how often each is counted and parsed."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.composition.services import Services
from app.web import bodies
from tests.fixtures.http.callers import Caller

JSON = "application/json"
VALID = b'{"query": "harbour"}'


async def ask(caller: Caller, kind: str, body: bytes, path: str = "/knowledge/search") -> httpx.Response:
    return await caller.request("POST", path, content=body, headers={"Content-Type": kind})


@pytest.mark.parametrize("kind", ["", "text/plain", "application/xml", "application/jsonp", "multipart/form-data"])
async def test_other_media_types_are_refused(admin: Caller, kind: str) -> None:
    assert (await ask(admin, kind, VALID)).status_code == 415


async def test_a_query_parameter_is_refused(admin: Caller) -> None:
    answer = await ask(admin, JSON, VALID, "/knowledge/search?limit=1")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "limit"


@pytest.mark.parametrize("body", [VALID, b"{}", b'{"query": '], ids=["valid", "missing query", "no JSON"])
async def test_each_request_counts_once(admin: Caller, platform: Caller, api_services: Services, body: bytes) -> None:
    limits = f"/admin/tenants/{admin.tenant_id}"
    assert (await platform.patch(limits, {"limits": {"requests_per_minute": 100}})).status_code == 200
    await admin.search("harbour")
    assert admin.tenant_id is not None
    tenant = await api_services.tenants.context(admin.tenant_id)
    before = api_services.admission.used(tenant)["requests_per_minute"]
    for _ in range(10):
        await ask(admin, JSON, body)
    assert api_services.admission.used(tenant)["requests_per_minute"] - before in (9, 10)


async def test_a_refused_body_is_parsed_once(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = 0
    parse = bodies.parse_json

    def count(*arguments: Any) -> Any:
        nonlocal parsed
        parsed += 1
        return parse(*arguments)

    monkeypatch.setattr(bodies, "parse_json", count)
    assert (await ask(admin, JSON, b"{}")).status_code == 422
    assert parsed == 1
