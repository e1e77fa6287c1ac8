"""A tenant's limits apply to its tools, and tool results report them to the model."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from mcp import MCPError

from app.knowledge.tenants.admission import REPORTS
from app.mcp.endpoint import SMALL
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.limits import allow, expect_refusal
from tests.fixtures.http.mcp_client import HEADERS, connect, fail, succeed


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_requests_over_a_minutes_limit_are_problems_with_a_retry_time(
    app: FastAPI, admin: Caller, stranger: Caller, platform: Caller, mode: str
) -> None:
    async with (
        connect(app, admin.token, mode) as client,
        connect(app, stranger.token, mode) as other,
    ):
        await succeed(client, "kb_search", query="harbour")
        await allow(platform, admin, requests_per_minute=1)
        await client.call_tool("kb_search", {"query": "harbour"})
        problem = await fail(client, "kb_search", 429, query="harbour")
        assert problem["limit"] == "requests_per_minute"
        assert 1 <= problem["retry_after"] <= 60
        with pytest.raises(MCPError, match="requests_per_minute"):
            await client.list_tools()
        await succeed(other, "kb_search", query="harbour")


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_large_message_over_the_limit_is_refused_before_it_is_read(
    admin: Caller, platform: Caller, chunked: bool
) -> None:
    await allow(platform, admin, requests_per_minute=1)
    await admin.get("/knowledge/entries")
    read = False

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        read = True
        yield b"{}"

    headers = {**HEADERS, "Content-Type": "application/json"}
    if not chunked:
        headers["Content-Length"] = str(SMALL + 1)
    expect_refusal(await admin.post("/mcp", content=body(), headers=headers), "requests_per_minute")
    assert not read


async def test_refused_messages_are_read_only_so_often(admin: Caller, stranger: Caller, platform: Caller) -> None:
    await allow(platform, admin, requests_per_minute=1)
    await admin.get("/knowledge/entries")
    headers = {**HEADERS, "Content-Type": "application/json"}
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "kb_search", "arguments": {"query": "harbour"}},
    }
    read = 0
    # Another message may be read each second, so a slow machine reads some more.
    while (answer := await admin.post("/mcp", message, headers=headers)).status_code == 200:
        assert answer.json()["result"]["isError"] is True
        read += 1
        assert read < 3 * REPORTS
    assert read >= REPORTS
    expect_refusal(answer, "requests_per_minute")
    assert (await stranger.post("/mcp", message, headers=headers)).json()["result"]["isError"] is False


async def test_a_quota_of_entries_applies_to_tools(app: FastAPI, admin: Caller, platform: Caller) -> None:
    await allow(platform, admin, entries=1)
    async with connect(app, admin.token) as client:
        await succeed(client, "kb_add", content="one")
        problem = await fail(client, "kb_add", 429, content="two")
        results, _ = await succeed(client, "kb_bulk_import", entries=[{"content": "three"}])
    assert problem["limit"] == "entries"
    assert results["results"][0]["status"] == "failed"


async def test_a_limited_callers_protocol_messages_still_need_a_token(
    http: httpx.AsyncClient, admin: Caller, platform: Caller
) -> None:
    await allow(platform, admin, requests_per_minute=1)
    for _ in range(3):
        answer = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert answer.status_code == 401


@pytest.mark.parametrize("given", ["1.5", "NaN", "null", "true", "[]", "{}", "1e400"])
async def test_a_request_whose_id_is_invalid_is_refused(admin: Caller, given: str) -> None:
    """The SDK would read it as a notification, and the caller would wait for an answer for ever."""
    headers = {**HEADERS, "Content-Type": "application/json"}
    message = f'{{"jsonrpc": "2.0", "id": {given}, "method": "tools/list"}}'
    answer = await admin.post("/mcp", content=message, headers=headers)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"] == {"code": -32600, "message": "id: must be text or an integer"}
    notification = '{"jsonrpc": "2.0", "method": "notifications/initialized"}'
    assert (await admin.post("/mcp", content=notification, headers=headers)).status_code == 202
