"""The official kit's client, with a token."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from fastapi import FastAPI
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

URL = "http://service.test/mcp"
READING = ["kb_search", "kb_get_related", "hybrid_search"]
WRITING = ["kb_add", "kb_bulk_import"]
ADMINISTERING = ["kb_stats", "kb_rebuild_embeddings"]


@contextlib.asynccontextmanager
async def connect(app: FastAPI, token: str, mode: str = "auto") -> AsyncIterator[Client]:
    """A client whose requests reach the app without a network."""
    transport = httpx2.ASGITransport(app=app)
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(transport=transport, headers=headers) as http,
        Client(streamable_http_client(URL, http_client=http), mode=mode) as client,
    ):
        yield client


def read_text(result: CallToolResult) -> str:
    """The readable part of an answer."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def succeed(client: Client, name: str, **arguments: Any) -> tuple[dict[str, Any], str]:
    """Call a tool, expect an answer; its structured output and its text."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.structured_content
    assert isinstance(result.structured_content, dict)
    return result.structured_content, read_text(result)


async def fail(client: Client, name: str, status: int, **arguments: Any) -> dict[str, Any]:
    """Call a tool, expect a problem with this status."""
    result = await client.call_tool(name, arguments)
    assert result.is_error, result.structured_content
    problem = result.structured_content
    assert isinstance(problem, dict)
    assert {"type", "title", "status", "detail", "request_id"} <= set(problem)
    assert problem["status"] == status, problem
    assert problem["request_id"]
    return problem
