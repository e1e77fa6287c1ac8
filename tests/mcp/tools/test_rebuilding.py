"""Rebuilding vectors and changing the model with a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI

from app.mcp.tools import TOOLS
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.mcp_client import connect, fail, succeed

TOOL = "kb_rebuild_embeddings"


async def test_without_a_model_the_vectors_of_the_model_in_use_are_rebuilt(
    app: FastAPI, admin: Caller, work: Callable[[], Awaitable[None]]
) -> None:
    await admin.add("A fact")
    async with connect(app, admin.token) as client:
        started, text = await succeed(client, TOOL)
        assert (started["rebuild"], started["state"], started["old"]) == (True, "filling", started["new"])
        assert "The vectors are being created; 0% of 1 entries are done." in text
        await fail(client, TOOL, 409, action="switch")
        await work()
        shown, text = await succeed(client, TOOL, action="status")
        assert (shown["state"], shown["progress"]) == ("switched", 1.0)
        assert shown == (await admin.get("/admin/reembed")).json()
        assert "nothing is compared" in text
        await fail(client, TOOL, 422, action="status", rate=5)
        await succeed(client, TOOL, action="end")
        await fail(client, TOOL, 404, action="status")


async def test_null_terms_are_allowed_by_the_schema_and_accepted(app: FastAPI, admin: Caller) -> None:
    properties = TOOLS[TOOL].input_schema["properties"]
    for name in ("rate", "switch_at_overlap"):
        assert {"type": "null"} in properties[name]["anyOf"]
        assert "default" not in properties[name]
    assert "anyOf" not in properties["model"]
    async with connect(app, admin.token) as client:
        started, _ = await succeed(client, TOOL, rate=None, switch_at_overlap=None)
    assert (started["rate"], started["switch_at_overlap"]) == (None, None)
