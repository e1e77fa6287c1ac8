"""What MCP offers and answers: golden."""

from typing import Any

import pytest

from tests.fixtures.http.callers import Caller
from tests.fixtures.http.mcp_client import HEADERS
from tests.golden.files import expect_golden, expect_only, sort_keys, write_json

OFFERS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "golden", "version": "1"},
    },
    "resources/list": {},
    "resources/templates/list": {},
    "prompts/list": {},
}


async def call(caller: Caller, method: str, params: dict[str, Any]) -> Any:
    """The result of one message, or its error."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = (await caller.post("/mcp?tools=all", message, headers=HEADERS)).json()
    return answer.get("result", answer)


@pytest.mark.parametrize("method", OFFERS)
async def test_what_mcp_offers_is_golden(admin: Caller, method: str) -> None:
    offered = await call(admin, method, OFFERS[method])
    expect_golden(f"mcp/offers/{method.replace('/', '-')}.json", write_json(sort_keys(offered)))


async def test_tools_are_golden(admin: Caller) -> None:
    listed = await call(admin, "tools/list", {})
    files = {f"{tool['name']}.json": tool for tool in listed["tools"]}
    for name, tool in files.items():
        expect_golden(f"mcp/tools/{name}", write_json(sort_keys(tool)))
    expect_golden(
        "mcp/offers/tools-list.json", write_json({**listed, "tools": [tool["name"] for tool in listed["tools"]]})
    )
    expect_only("mcp/tools", files)
    expect_only("mcp/offers", [f"{method.replace('/', '-')}.json" for method in (*OFFERS, "tools/list")])
