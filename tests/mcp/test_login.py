"""Remote clients find the authorization server by themselves, log in, and get tokens that are bound to /mcp."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import httpx2
import pytest
from asgi_lifespan import LifespanManager
from fastapi import FastAPI
from mcp import Client
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from app.composition.services import Services
from app.contract.administration import Tenant
from app.errors import ConfigurationError
from app.main import create_app, open_login
from app.settings import IngestionSettings, ServerSettings, Settings, load_settings
from app.settings.groups import JwtSettings
from tests.fixtures.http.callers import Caller, open_client
from tests.fixtures.http.expectations import expect_problem
from tests.fixtures.http.inspector import install_inspector
from tests.fixtures.http.mcp_client import HEADERS, READING, URL, succeed
from tests.fixtures.http.serving import free_port, serve
from tests.fixtures.identity.authorization import AuthorizationServer

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
            jwks_url=f"{authorization.url}/jwks",
            mcp_issuer=authorization.issuer,
            mcp_scopes="kb.read kb.roles",
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
        assert [tool.name for tool in (await client.list_tools()).tools] == READING
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
        assert await inspector.log_in(f"{url}/mcp") == READING
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
