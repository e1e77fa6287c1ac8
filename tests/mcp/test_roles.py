"""Which roles see and use which tools, and how another tenant's ids are answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from mcp import MCPError

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import Tenant
from app.mcp.tools import TOOLS
from app.web.bodies import MCP_READER
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.http.expectations import expect_problem
from tests.fixtures.http.mcp_client import ADMINISTERING, HEADERS, READING, WRITING, connect, fail, succeed
from tests.mcp.calls import CALLS, UNKNOWN

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}

LISTED = {
    Role.READER: READING,
    Role.CREATOR: [*READING, *WRITING],
    Role.TENANT_ADMIN: [*READING, *WRITING, *ADMINISTERING],
}


def test_every_tool_has_a_row_in_the_table() -> None:
    assert set(CALLS) == set(TOOLS)
    assert {name: tool.role for name, tool in TOOLS.items()} == {n: row[0] for n, row in CALLS.items()}


def test_schemas_suit_clients_and_models_that_accept_less() -> None:
    def schemas_in(node: Any) -> Iterator[dict[str, Any]]:
        if isinstance(node, dict):
            yield node
        for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            yield from schemas_in(part)

    for tool in TOOLS.values():
        assert tool.input_schema["type"] == tool.output_schema["type"] == "object"
        for schema in schemas_in([tool.input_schema, tool.output_schema]):
            assert "$ref" not in schema
            assert not isinstance(schema.get("type"), list), (tool.name, schema)


def test_annotations_say_what_a_tool_does_to_stored_knowledge() -> None:
    said = {
        name: (a.read_only_hint, a.destructive_hint, a.idempotent_hint, a.open_world_hint)
        for name, a in ((name, tool.annotations) for name, tool in TOOLS.items())
    }
    reads, changes = (True, False, True, False), (False, True, True, False)
    expected = dict.fromkeys([*READING, "kb_stats"], reads) | dict.fromkeys(WRITING, changes)
    expected["kb_feedback"] = (False, False, True, False)
    expected["kb_rebuild_embeddings"] = (False, True, False, False)
    assert said == expected


def test_no_tool_takes_a_tenant() -> None:
    for tool in TOOLS.values():
        assert not [name for name in tool.input_schema["properties"] if "tenant" in name]
        assert tool.input_schema["additionalProperties"] is False


@pytest.mark.parametrize(("role", "mode"), [*((role, "auto") for role in LISTED), (Role.CREATOR, "legacy")])
async def test_a_caller_sees_and_uses_only_the_tools_of_its_role(
    app: FastAPI, api_tenant: Tenant, role: Role, mode: str
) -> None:
    async with connect(app, make_token(api_tenant.id, role), mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == LISTED[role]
        for name, (_, arguments, status) in CALLS.items():
            if name not in LISTED[role]:
                await fail(client, name, 403, **arguments)
            elif status is not None:
                await fail(client, name, status, **arguments)
            else:
                await succeed(client, name, **arguments)


async def test_a_refusal_changes_nothing_and_is_in_the_audit_trail(app: FastAPI, admin: Caller, reader: Caller) -> None:
    async with connect(app, reader.token) as client:
        await fail(client, "kb_add", 403, content="smuggled in")
    assert (await admin.get("/knowledge/entries")).json()["items"] == []
    trail = (await admin.get("/admin/audit")).json()["items"]
    assert ("rita", "refused") in {(row["actor"], row["outcome"]) for row in trail}


async def test_changes_by_tools_are_audited_as_over_http(app: FastAPI, admin: Caller) -> None:
    async with connect(app, admin.token) as client:
        added, text = await succeed(client, "kb_add", content="The harbour opens at six", tags=["harbour"])
        again, _ = await succeed(client, "kb_add", content="The harbour opens at six", title="Opening")
        _, unchanged = await succeed(client, "kb_add", content="The harbour opens at six", title="Opening")
        _, counted = await succeed(client, "kb_stats")
        imported, said = await succeed(client, "kb_bulk_import", entries=[{"content": "one"}, {"content": ""}])
    assert (added["status"], again["status"]) == ("created", "existing")
    assert added["entry"]["id"] == again["entry"]["id"]
    assert added["entry"]["id"] in text
    assert again["entry"]["title"] == "Opening"
    assert "updated" not in unchanged
    assert [r["status"] for r in imported["results"]] == ["created", "failed"]
    assert "1 created" in said
    assert "entry 1: content" in said
    assert 'entries_by_type: {"fact":1}' in counted.splitlines()
    assert set(await admin.find("harbour")) == {"The harbour opens at six"}
    trail = (await admin.get("/admin/audit?limit=200")).json()["items"]
    actions = [row["action"] for row in trail if row["actor"] == "ada"]
    assert {"entry.write", "stats.read"} <= set(actions)


async def test_searches_by_tools_leave_receipts(
    app: FastAPI, admin: Caller, reader: Caller, api_services: Services
) -> None:
    await admin.add("The harbour opens at six")
    async with connect(app, reader.token) as client:
        found, _ = await succeed(client, "kb_search", query="harbour")
    await api_services.journal.flush()
    receipt = await admin.get(f"/admin/searches/{found['metadata']['search_id']}")
    assert receipt.status_code == 200


async def test_http_refuses_before_any_message_is_read(
    http: httpx.AsyncClient, platform: Caller, api_tenant: Tenant
) -> None:
    expect_problem(await http.post("/mcp", json=INITIALIZE, headers=HEADERS), 401)
    expect_problem(await platform.post("/mcp", INITIALIZE, headers=HEADERS), 403)
    unknown = Caller(http, uuid4(), make_token(uuid4(), Role.READER))
    expect_problem(await unknown.post("/mcp", INITIALIZE, headers=HEADERS), 401)
    both = Caller(http, api_tenant.id, make_token(api_tenant.id, Role.PLATFORM_ADMIN, Role.TENANT_ADMIN))
    expect_problem(await both.post("/mcp", INITIALIZE, headers=HEADERS), 403)
    reader = Caller(http, api_tenant.id, make_token(api_tenant.id, Role.READER))
    answer = await reader.post("/mcp", INITIALIZE, headers=HEADERS)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in answer.headers
    assert "knowledge base" in answer.json()["result"]["instructions"]
    for method in ("GET", "DELETE"):
        refused = await reader.request(method, "/mcp", headers=HEADERS)
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


async def test_a_body_that_is_too_large_is_refused(reader: Caller) -> None:
    body = b'{"jsonrpc": "' + b"x" * (33 << 20) + b'"}'
    headers = {**HEADERS, "Content-Type": "application/json"}
    expect_problem(await reader.post("/mcp", content=body, headers=headers), 413)


@pytest.mark.parametrize("body", [b"{", b"[]", b"7", b"[" * 100_000, b'{"jsonrpc":"2.0","id":1,"method":"x"}'])
async def test_a_malformed_message_is_a_protocol_error(reader: Caller, body: bytes) -> None:
    headers = {**HEADERS, "Content-Type": "application/json"}
    answer = await reader.post("/mcp", content=body, headers=headers)
    assert answer.status_code in (200, 400)
    assert answer.json()["error"]["code"] < 0


@pytest.mark.parametrize(
    "arguments",
    [
        b"[" * 65 + b"]" * 65,
        b"[" + b"[]," * MCP_READER.containers + b"[]]",
        b"[" + b"1," * MCP_READER.values + b"1]",
    ],
    ids=["deep", "containers", "values"],
)
async def test_a_message_that_is_expensive_to_parse_is_a_protocol_error(reader: Caller, arguments: bytes) -> None:
    message = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"kb_search","arguments":{"a":%b}}}'
    headers = {**HEADERS, "Content-Type": "application/json"}
    answer = await reader.post("/mcp", content=message % arguments, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32600
    assert answer.json()["error"]["message"].startswith("body: must ")


BAD_ARGUMENTS: list[tuple[str, str, dict[str, Any]]] = [
    ("kb_search", "query", {}),
    ("kb_search", "query", {"query": " "}),
    ("kb_search", "query", {"query": "nul \x00"}),
    ("kb_search", "limit", {"query": "word", "limit": 51}),
    ("kb_search", "limit", {"query": "word", "limit": 0}),
    ("kb_search", "tenant_id", {"query": "word", "tenant_id": UNKNOWN}),
    ("kb_search", "role", {"query": "word", "role": "boss"}),
    ("kb_search", "min_confidence", {"query": "word", "min_confidence": 2}),
    ("kb_search", "token_budget", {"query": "word", "token_budget": 10}),
    ("kb_search", "tags", {"query": "word", "tags": [""]}),
    ("kb_get_related", "entry_id", {"entry_id": "x"}),
    ("kb_get_related", "limit", {"entry_id": UNKNOWN, "limit": 21}),
    ("hybrid_search", "query_text", {"query_text": ""}),
    ("hybrid_search", "query_text", {"query_text": "nul \x00"}),
    ("hybrid_search", "top_k", {"query_text": "word", "top_k": 101}),
    ("hybrid_search", "limit", {"query_text": "word", "limit": 4}),
    ("hybrid_search", "query", {"query_text": "word", "query": "word"}),
    ("hybrid_search", "weights", {"query_text": "word", "weights": {"semantic": 0.7, "keyword": 0.7}}),
    ("hybrid_search", "query_embedding", {"query_text": "word", "query_embedding": [1.0]}),
    ("kb_add", "content", {"content": ""}),
    ("kb_add", "parent_id", {"content": "orphan", "parent_id": UNKNOWN}),
    ("kb_bulk_import", "entries", {"entries": []}),
    ("kb_stats", "x", {"x": 1}),
    ("kb_why_not", "entry_id", {"query": "word"}),
    ("kb_why_not", "limit", {"query": "word", "entry_id": UNKNOWN, "limit": 51}),
    ("kb_why_not", "as_of", {"query": "word", "entry_id": UNKNOWN, "as_of": "2026-01-01T00:00:00Z"}),
    ("kb_saved_searches", "cursor", {"cursor": "x"}),
    ("kb_saved_searches", "limit", {"limit": 201}),
    ("kb_feedback", "relevant", {"search_id": UNKNOWN, "entry_id": UNKNOWN, "relevant": "yes"}),
    ("kb_get", "start", {"entry_id": UNKNOWN, "start": -1}),
    ("kb_read_document", "page", {"asset_id": UNKNOWN, "page": 0}),
    ("kb_read_document", "heading", {"asset_id": UNKNOWN, "heading": ""}),
    ("kb_list_tags", "sort", {"sort": "age"}),
    ("kb_list_tags", "prefix", {"prefix": "nul \x00"}),
    ("kb_list_tags", "cursor", {"cursor": "x"}),
    ("search", "query", {"query": " "}),
    ("fetch", "id", {"id": "asset-1"}),
    ("kb_update", "content", {"entry_id": UNKNOWN, "content": ""}),
    ("kb_update", "version", {"entry_id": UNKNOWN, "version": 0}),
    ("kb_delete", "version", {"entry_id": UNKNOWN, "version": "1"}),
]


async def test_a_wrong_argument_is_a_problem_that_names_it(app: FastAPI, admin: Caller) -> None:
    async with connect(app, admin.token) as client:
        for tool, field, arguments in BAD_ARGUMENTS:
            problem = await fail(client, tool, 422, **arguments)
            assert [error["field"] for error in problem["errors"]] == [field], (tool, arguments)
            assert problem["errors"][0]["message"]


async def test_an_unknown_tool_is_a_protocol_error(app: FastAPI, admin: Caller) -> None:
    async with connect(app, admin.token) as client:
        with pytest.raises(MCPError, match="no tool with this name"):
            await client.call_tool("kb_drop", {})


@pytest.mark.parametrize("tool", ["kb_get_related", "kb_add parent_id", "kb_add source_ids", "kb_bulk_import"])
async def test_another_tenants_id_is_answered_like_an_unknown_one(
    app: FastAPI, admin: Caller, stranger: Caller, tool: str
) -> None:
    parent = await admin.add("The parent", tags=["a", "b"])
    child = await admin.add("The child", tags=["a", "b"], parent_id=parent["id"])

    def arguments(entry_id: str) -> dict[str, Any]:
        given: dict[str, dict[str, Any]] = {
            "kb_get_related": {"entry_id": entry_id},
            "kb_add parent_id": {"content": "mine", "parent_id": entry_id},
            "kb_add source_ids": {"content": "mine", "source_ids": [entry_id]},
            "kb_bulk_import": {"entries": [{"content": "mine", "parent_id": entry_id}]},
        }
        return given[tool]

    answers = []
    async with connect(app, stranger.token) as client:
        for entry_id in (child["id"], UNKNOWN):
            result = await client.call_tool(tool.partition(" ")[0], arguments(entry_id))
            shown = result.model_dump(mode="json")
            shown["structured_content"].pop("request_id", None)
            for content in shown["content"]:
                content["text"] = content["text"].replace(entry_id, "ID").split('"request_id"')[0]
            answers.append(shown)
    assert answers[0] == answers[1]


async def test_tools_find_nothing_of_another_tenant(app: FastAPI, admin: Caller, stranger: Caller) -> None:
    await admin.add("The zanzibar word", tags=["zanzibar-tag"])
    async with connect(app, stranger.token) as client:
        for tool, field in (("kb_search", "query"), ("hybrid_search", "query_text")):
            for query in ("zanzibar", "zanzibra", "zanzibar-tag"):
                found, text = await succeed(client, tool, **{field: query})
                assert found["results"] == []
                assert found["metadata"]["suggestions"] == []
                assert found["metadata"]["estimated_matches"] == 0
                assert "zanzibar" not in text
        stats, _ = await succeed(client, "kb_stats")
    assert stats["entries"] == 0
