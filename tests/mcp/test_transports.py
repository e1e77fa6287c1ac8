"""The official clients over real connections: many at once, and the Inspector."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.contract.administration import NewTenant, Tenant
from app.contract.entries import EntryDraft
from app.db.rows import new_id
from app.main import create_app
from app.settings import Settings
from tests.fixtures.http.callers import make_token
from tests.fixtures.http.inspector import install_inspector
from tests.fixtures.http.mcp_client import READING, succeed
from tests.fixtures.http.serving import serve
from tests.mcp.calls import CALLS


@pytest.fixture
def served(settings: Settings, api_services: Services, verifier: TokenVerifier) -> FastAPI:
    """A separate app, because a server starts and ends it."""
    return create_app(settings, api_services, verifier)


async def test_ten_clients_at_once_each_find_their_own_tenants_knowledge(
    served: FastAPI, api_services: Services
) -> None:
    tenants = []
    for number in range(5):
        made = await api_services.tenants.create(NewTenant(f"m-{new_id().hex}", "Tests"), actor="test")
        await api_services.entries.create(made.id, EntryDraft(content=f"The harbour of tenant {number}"), actor="test")
        tenants.append(made)

    async def use(url: str, number: int) -> None:
        own = number % len(tenants)
        token = make_token(tenants[own].id, Role.READER, subject=f"client-{number}")
        mode = "legacy" if number >= len(tenants) else "auto"
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
        ):
            assert [tool.name for tool in (await client.list_tools()).tools] == READING
            answers = await asyncio.gather(*(succeed(client, "kb_search", query="harbour") for _ in range(3)))
        for found, _ in answers:
            assert [hit["content"] for hit in found["results"]] == [f"The harbour of tenant {own}"]

    async with serve(served) as url, asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(use(url, number))


@pytest.mark.slow
async def test_the_inspector_calls_every_tool_over_http(served: FastAPI, api_tenant: Tenant, tmp_path: Path) -> None:
    inspector = install_inspector(tmp_path)
    token = make_token(api_tenant.id, Role.TENANT_ADMIN)
    async with serve(served) as url:
        place = (f"{url}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {token}")
        for era in ("legacy", "modern"):
            assert await inspector.list_tools(*place, "--protocol-era", era) == list(CALLS)
        for name, (_, arguments, status) in CALLS.items():
            result = await inspector.call_tool(*place, name=name, arguments=arguments)
            assert result.get("isError", False) is (status is not None), (name, result)
            if status is not None:
                assert result["structuredContent"]["status"] == status
            refused = await inspector.call_tool(*place, name=name, arguments={**arguments, "x": 1})
            assert refused["structuredContent"]["errors"] == [{"field": "x", "message": "unknown field"}]
