"""Roles and logins."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import httpx2
import orjson
import pytest
from asgi_lifespan import LifespanManager
from fastapi import FastAPI
from mcp import Client, MCPError
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import Tenant
from app.errors import ConfigurationError
from app.main import create_app, open_login
from app.mcp.tools import SETS, TOOLS
from app.settings import IngestionSettings, ServerSettings, Settings, load_settings
from app.settings.groups import JwtSettings
from app.web.bodies import MCP_READER
from tests.fixtures.http.callers import Caller, make_token, open_client
from tests.fixtures.http.expectations import expect_problem
from tests.fixtures.http.inspector import install_inspector
from tests.fixtures.http.mcp_client import ADMINISTERING, HEADERS, READING, URL, WRITING, connect, fail, succeed
from tests.fixtures.http.serving import free_port, serve
from tests.fixtures.identity.authorization import AuthorizationServer
from tests.mcp.calls import CALLS, UNKNOWN

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
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


def test_the_core_tools_cost_a_model_few_tokens() -> None:
    """Tokens are counted as a quarter of the characters: what tokenizers count in JSON and English prose."""
    listed = [
        part for name in SETS["core"] for tool in [TOOLS[name]]
        for part in (tool.description, orjson.dumps(tool.input_schema).decode())
    ]  # fmt: skip
    assert sum(map(len, listed)) / 4 <= 3_500


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", SETS["core"]),
        ("?tools=core", SETS["core"]),
        ("?tools=assistants", {"search", "fetch"}),
        ("?tools=all", set(TOOLS)),
    ],
)
async def test_the_address_chooses_the_tools_that_a_client_lists(
    app: FastAPI, api_tenant: Tenant, query: str, names: set[str]
) -> None:
    async with connect(app, make_token(api_tenant.id, Role.TENANT_ADMIN), tools=query) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == names
        await succeed(client, "kb_list_tags")  # roles protect tools, and sets only list them


async def test_an_unknown_set_of_tools_is_refused(admin: Caller) -> None:
    problem = expect_problem(await admin.post("/mcp?tools=most", INITIALIZE, headers=HEADERS), 422)
    assert problem["errors"] == [{"field": "tools", "message": "must be one of core, all, assistants"}]


async def test_id_and_entry_id_are_accepted_for_each_other(app: FastAPI, admin: Caller) -> None:
    entry = await admin.add("The harbour opens at six")
    async with connect(app, admin.token) as client:
        for name, more in (("kb_get", {}), ("kb_get_related", {}), ("fetch", {}), ("kb_why_not", {"query": "harbour"})):
            for key in ("id", "entry_id"):
                await succeed(client, name, **{key: entry["id"]}, **more)
        found, _ = await succeed(client, "kb_search", query="harbour")
        given, _ = await succeed(
            client, "kb_feedback", search_id=found["metadata"]["search_id"], id=entry["id"], relevant=True
        )
        assert given["entry_id"] == entry["id"]
        await succeed(client, "kb_update", id=entry["id"], title="Opening")
        both = await fail(client, "kb_get", 422, id=entry["id"], entry_id=entry["id"])
        assert [error["field"] for error in both["errors"]] == ["id"]
        await succeed(client, "kb_delete", id=entry["id"])


def test_no_tool_takes_a_tenant() -> None:
    for tool in TOOLS.values():
        assert not [name for name in tool.input_schema["properties"] if "tenant" in name]
        assert tool.input_schema["additionalProperties"] is False


@pytest.mark.sampled(2)
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
    assert again["entry"]["version"] == 2
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
    expect_problem(await reader.post("/mcp", content=body, headers=HEADERS), 413)


@pytest.mark.parametrize("body", [b"{", b"[]", b"7", b"[" * 100_000, b'{"jsonrpc":"2.0","id":1,"method":"x"}'])
async def test_a_malformed_message_is_a_protocol_error(reader: Caller, body: bytes) -> None:
    answer = await reader.post("/mcp", content=body, headers=HEADERS)
    assert answer.status_code in (200, 400)
    assert answer.json()["error"]["code"] < 0


@pytest.mark.parametrize(
    "arguments",
    [b"[" * 65 + b"]" * 65, b"[" + b"[]," * MCP_READER.containers + b"[]]", b"[" + b"1," * MCP_READER.values + b"1]"],
    ids=["deep", "containers", "values"],
)
async def test_a_message_that_is_expensive_to_parse_is_a_protocol_error(reader: Caller, arguments: bytes) -> None:
    message = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"kb_search","arguments":{"a":%b}}}'
    answer = await reader.post("/mcp", content=message % arguments, headers=HEADERS)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32600
    assert answer.json()["error"]["message"].startswith("body: must ")


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
                assert found["metadata"]["total"] == 0
                assert "zanzibar" not in text
        stats, _ = await succeed(client, "kb_stats")
    assert stats["entries"] == 0


PUBLIC = "http://service.test"
METADATA = "/.well-known/oauth-protected-resource/mcp"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture
async def authorization(api_tenant: Tenant) -> AsyncIterator[AuthorizationServer]:
    async with AuthorizationServer(api_tenant.id).serving() as server:
        yield server


@pytest.fixture
async def guarded(api_services: Services, authorization: AuthorizationServer) -> AsyncIterator[FastAPI]:
    """The app, with the authorization server as the issuer of tokens for /mcp."""
    app = create_guarded(PUBLIC, api_services, authorization)
    async with LifespanManager(app):
        yield app


def create_guarded(public_url: str, services: Services, authorization: AuthorizationServer) -> FastAPI:
    settings = Settings(
        ingestion=IngestionSettings(worker=False),
        server=ServerSettings(public_url=public_url, cors_origins=("https://app.example.com",)),
        jwt=JwtSettings(
            jwks_url=f"{authorization.url}/jwks", mcp_issuer=authorization.issuer, mcp_scopes="kb.read kb.roles"
        ),
    )
    return create_app(settings, services)


class Storage(TokenStorage):
    """Tokens and the registration of a client, in memory."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Browser:
    """Follows the link of a login to the redirect that ends it."""

    def __init__(self) -> None:
        self.redirect = ""

    async def open(self, url: str) -> None:
        async with httpx.AsyncClient(trust_env=False) as http:
            answer = await http.get(url)
        assert answer.status_code == 302, answer.text
        self.redirect = answer.headers["location"]

    async def wait(self) -> AuthorizationCodeResult:
        given = parse_qs(urlsplit(self.redirect).query)
        return AuthorizationCodeResult(code=given["code"][0], state=given["state"][0])


async def test_the_sdks_client_logs_in_and_calls_a_tool(
    guarded: FastAPI, authorization: AuthorizationServer, admin: Caller
) -> None:
    await admin.add("The harbour opens at six")
    storage, browser = Storage(), Browser()
    login = OAuthClientProvider(
        URL,
        OAuthClientMetadata(client_name="Test", redirect_uris=[AnyUrl("http://127.0.0.1:9/callback")]),
        storage,
        browser.open,
        browser.wait,
    )
    service = httpx2.ASGITransport(app=guarded)
    async with (
        httpx2.AsyncClient(auth=login, mounts={PUBLIC: service}, trust_env=False) as http,
        Client(streamable_http_client(URL, http_client=http)) as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == [n for n in READING if n in SETS["core"]]
        found, _ = await succeed(client, "search", query="harbour")
    assert authorization.asked == [(URL, ["kb.read", "kb.roles"])]
    assert storage.tokens is not None
    (result,) = found["results"]
    assert result["url"] == f"{PUBLIC}/console/entries/{result['id']}"


@pytest.mark.slow
async def test_the_inspector_logs_in(
    api_services: Services, authorization: AuthorizationServer, tmp_path: Path
) -> None:
    inspector = install_inspector(tmp_path)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with serve(create_guarded(url, api_services, authorization), port=port):
        assert await inspector.log_in(f"{url}/mcp") == [name for name in READING if name in SETS["core"]]
    assert authorization.asked == [(f"{url}/mcp", ["kb.read", "kb.roles"])]


def expect_challenge(answer: httpx.Response) -> str:
    """The challenge of a problem with status 401."""
    assert answer.status_code == 401, answer.text
    assert answer.json()["type"] == "/problems/unauthenticated"
    return answer.headers["www-authenticate"]


async def test_a_caller_without_a_token_is_told_where_the_metadata_is(
    guarded: FastAPI, authorization: AuthorizationServer
) -> None:
    scope = 'scope="kb.read kb.roles"'
    async with open_client(guarded) as http:
        refused = await http.post("/mcp", json=LIST, headers=HEADERS)
        assert expect_challenge(refused) == f'Bearer resource_metadata="{PUBLIC}{METADATA}", {scope}'
        bad = await http.post("/mcp", json=LIST, headers={**HEADERS, "Authorization": "Bearer x.y.z"})
        assert expect_challenge(bad).startswith('Bearer error="invalid_token", resource_metadata=')
        elsewhere = await http.get("/knowledge/entries")
        assert elsewhere.headers["www-authenticate"] == "Bearer"
        for path in (METADATA, METADATA.removesuffix("/mcp")):
            answer = await http.get(path)
            assert answer.status_code == 200
            assert answer.json() == {
                "resource": f"{PUBLIC}/mcp",
                "authorization_servers": [authorization.issuer],
                "scopes_supported": ["kb.read", "kb.roles"],
                "bearer_methods_supported": ["header"],
                "resource_name": "Knowledge search",
            }


async def test_a_token_must_be_bound_to_this_resource_and_from_the_issuer(
    guarded: FastAPI, authorization: AuthorizationServer
) -> None:
    good = authorization.make_token(f"{PUBLIC}/mcp")
    bad = [
        authorization.make_token(None),
        authorization.make_token(PUBLIC),
        authorization.make_token("https://other.example/mcp"),
        authorization.make_token(f"{PUBLIC}/mcp", iss="https://other.example"),
        authorization.make_token(f"{PUBLIC}/mcp", exp=1),
        *authorization.make_forgeries(f"{PUBLIC}/mcp"),
    ]
    async with open_client(guarded) as http:

        async def list_tools(token: str) -> httpx.Response:
            return await http.post("/mcp", json=LIST, headers={**HEADERS, "Authorization": f"Bearer {token}"})

        assert (await list_tools(good)).status_code == 200
        for token in bad:
            expect_challenge(await list_tools(token))
        in_query = await http.post(f"/mcp?access_token={good}", json=LIST, headers=HEADERS)
        expect_challenge(in_query)
        # The token is for /mcp only.
        answer = await http.get("/knowledge/entries", headers={"Authorization": f"Bearer {good}"})
        expect_problem(answer, 401)


async def test_an_unknown_session_changes_nothing(
    guarded: FastAPI, authorization: AuthorizationServer, stranger: Caller
) -> None:
    headers = {**HEADERS, "Mcp-Session-Id": str(stranger.tenant_id), "Last-Event-ID": "1"}
    async with open_client(guarded) as http:
        expect_challenge(await http.post("/mcp", json=LIST, headers=headers))
        token = authorization.make_token(f"{PUBLIC}/mcp")
        own = await http.post("/mcp", json=LIST, headers={**headers, "Authorization": f"Bearer {token}"})
    assert own.status_code == 200
    assert "mcp-session-id" not in own.headers


async def test_pages_of_other_origins_may_not_call(
    guarded: FastAPI, authorization: AuthorizationServer, app: FastAPI, admin: Caller
) -> None:
    token = authorization.make_token(f"{PUBLIC}/mcp")
    for target, key, allowed in (
        (guarded, token, {PUBLIC: 200, "https://app.example.com": 200}),
        (app, admin.token, {}),
    ):
        async with open_client(target) as http:
            for origin, status in {
                **allowed,
                "https://evil.example": 403,
                "http://127.0.0.1:8000": 403,
                "http://service.test.evil.example": 403,
                "null": 403,
            }.items():
                headers = {**HEADERS, "Authorization": f"Bearer {key}", "Origin": origin}
                answer = await http.post("/mcp", json=LIST, headers=headers)
                assert answer.status_code == status, (origin, answer.text)


async def test_without_an_issuer_there_is_no_metadata(http: httpx.AsyncClient) -> None:
    expect_problem(await http.get(METADATA), 404)
    refused = await http.post("/mcp", json=LIST, headers=HEADERS)
    assert refused.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"KB_MCP_ISSUER": "https://login.example.com"}, "KB_PUBLIC_URL"),
        (
            {
                "KB_MCP_ISSUER": "https://login.example.com",
                "KB_PUBLIC_URL": "https://kb.example.com",
                "JWT_ISSUER": "https://other.example.com",
            },
            "KB_MCP_ISSUER",
        ),
        ({"KB_PUBLIC_URL": "https://kb.example.com/path"}, "KB_PUBLIC_URL"),
        ({"KB_MCP_ISSUER": "login.example.com"}, "KB_MCP_ISSUER"),
        ({"KB_MCP_SCOPES": "kb.read"}, "KB_MCP_SCOPES"),
    ],
)
def test_contradictory_settings_are_refused(given: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        load_settings(given)


async def test_an_issuer_without_encryption_is_refused() -> None:
    given = {"KB_MCP_ISSUER": "http://login.example.com", "KB_PUBLIC_URL": "https://kb.example.com"}
    with pytest.raises(ConfigurationError, match="KB_MCP_ISSUER"):
        async with open_login(load_settings({**given, "JWT_JWKS_URL": "https://login.example.com/jwks"})):
            pass
