"""A search that takes the short way is answered as by FastAPI."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.api.search import SHORTCUTS
from app.composition.services import Services
from app.web import bodies
from app.web.shortcut import Shortcut
from tests.fixtures.http.callers import Caller

SHORT = "application/json"
LONG = "application/json; charset=UTF-8"
"""A media type in a spelling that the short way leaves to FastAPI."""

VARYING = (
    "request_id",
    "search_id",
    "query_time_ms",
    "waiting_ms",
    "embedding_ms",
    "semantic_ms",
    "keyword_ms",
)

BODIES = {
    "valid": b'{"query": "harbour"}',
    "all fields": b'{"query": "harbour", "mode": "keyword", "limit": 1, "explain": true, "tags": ["a"]}',
    "nothing found": b'{"query": "xyzzy", "mode": "keyword"}',
    "empty": b"",
    "null": b"null",
    "a list": b"[]",
    "a number": b"1",
    "no object": b'"harbour"',
    "no JSON": b'{"query": ',
    "two values": b"{} {}",
    "not UTF-8": b'{"query": "\xff"}',
    "missing query": b"{}",
    "unknown field": b'{"query": "a", "qeury": 1, "constructor": 2}',
    "many errors": b'{"query": 1, "mode": "x", "limit": "2", "tags": 3, "explain": 1, "weights": {"semantic": 2}}',
    "limit": b'{"query": "a", "limit": 51}',
    "weights": b'{"query": "a", "weights": {"semantic": 0.5, "keyword": 0.6}}',
    "no number": b'{"query": "a", "min_confidence": NaN}',
    "a surrogate": b'{"query": "\\ud800"}',
    "too deep": b'{"query": ' + b"[" * 65 + b"]" * 65 + b"}",
    "a cursor": b'{"query": "a", "cursor": "AAAA"}',
}


async def ask(caller: Caller, kind: str, body: bytes, path: str = "/knowledge/search") -> httpx.Response:
    return await caller.request("POST", path, content=body, headers={"Content-Type": kind})


def fixed(value: Any) -> Any:
    """The answer without the values that differ from search to search."""
    if isinstance(value, dict):
        return {name: fixed(item) for name, item in value.items() if name not in VARYING}
    return value


def headers_of(answer: httpx.Response) -> set[str]:
    return {
        f"{name}: {value}"
        for name, value in answer.headers.items()
        if name not in ("x-request-id", "content-length")
    }


@pytest.mark.parametrize("name", BODIES)
async def test_both_ways_give_the_same_answer(admin: Caller, name: str) -> None:
    await admin.add("The harbour opens at nine.", tags=["a"])
    short, long = [await ask(admin, kind, BODIES[name]) for kind in (SHORT, LONG)]
    assert short.status_code == long.status_code
    assert fixed(short.json()) == fixed(long.json())
    assert headers_of(short) == headers_of(long)


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/xml", "application/jsonp", "multipart/form-data"]
)
async def test_other_media_types_are_refused_as_before(admin: Caller, kind: str) -> None:
    assert (await ask(admin, kind, BODIES["valid"])).status_code == 415


async def test_a_query_parameter_is_refused_as_before(admin: Caller) -> None:
    answer = await ask(admin, SHORT, BODIES["valid"], "/knowledge/search?limit=1")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "limit"


@pytest.mark.parametrize("name", ["valid", "missing query", "no JSON"])
async def test_each_request_counts_once(
    admin: Caller, platform: Caller, api_services: Services, name: str
) -> None:
    limits = f"/admin/tenants/{admin.tenant_id}"
    assert (await platform.patch(limits, {"limits": {"requests_per_minute": 100}})).status_code == 200
    await admin.search("harbour")
    assert admin.tenant_id is not None
    tenant = await api_services.tenants.context(admin.tenant_id)
    before = api_services.admission.used(tenant)["requests_per_minute"]
    for _ in range(10):
        await ask(admin, SHORT, BODIES[name])
    assert api_services.admission.used(tenant)["requests_per_minute"] - before in (9, 10)


async def test_a_valid_search_takes_the_short_way_and_an_invalid_one_does_not(
    admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bool] = []
    serve = Shortcut.__call__

    async def observed(self: Shortcut, *arguments: Any) -> Any:
        left = await serve(self, *arguments)
        taken.append(left is None)
        return left

    monkeypatch.setattr(Shortcut, "__call__", observed)
    for body in (BODIES["valid"], BODIES["missing query"]):
        await ask(admin, SHORT, body)
    assert taken == [True, False]
    assert list(SHORTCUTS) == [("POST", "/knowledge/search")]


async def test_a_refused_body_is_parsed_once(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = 0
    parse = bodies.parse_json

    def count(*arguments: Any) -> Any:
        nonlocal parsed
        parsed += 1
        return parse(*arguments)

    monkeypatch.setattr(bodies, "parse_json", count)
    assert (await ask(admin, SHORT, BODIES["missing query"])).status_code == 422
    assert parsed == 1
