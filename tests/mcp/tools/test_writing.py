"""Changing and deleting entries with tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI

from app.mcp.tools import TOOLS
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.mcp_client import connect, fail, succeed


async def test_an_update_changes_only_the_given_fields(app: FastAPI, admin: Caller) -> None:
    entry = await admin.add("The harbour opens at six", title="Opening", tags=["harbour"])
    async with connect(app, admin.token) as client:
        changed, text = await succeed(
            client, "kb_update", entry_id=entry["id"], version=1, content="The harbour opens at seven"
        )
        cleared, _ = await succeed(client, "kb_update", entry_id=entry["id"], title=None)
        stale = await fail(client, "kb_update", 412, entry_id=entry["id"], version=1, tags=[])
        await fail(client, "kb_update", 422, entry_id=entry["id"], confidence=2)
    assert (changed["content"], changed["title"], changed["tags"]) == (
        "The harbour opens at seven",
        "Opening",
        ["harbour"],
    )
    assert "version 2" in text
    assert cleared["title"] is None
    assert stale["type"].endswith("stale-etag")
    assert (await admin.get(f"/knowledge/entries/{entry['id']}")).json() == cleared
    trail = (await admin.get("/admin/audit?limit=200")).json()["items"]
    assert "entry.update" in {row["action"] for row in trail if row["actor"] == "ada"}


async def test_the_schema_of_an_update_has_nulls_that_clear_fields() -> None:
    properties = TOOLS["kb_update"].input_schema["properties"]
    for name in ("title", "parent_id", "expires_at", "superseded_by_id", "external_id", "language"):
        assert {"type": "null"} in properties[name]["anyOf"]
    assert "anyOf" not in properties["tags"]
    assert TOOLS["kb_update"].input_schema["required"] == ["entry_id"]


async def test_a_deleted_entry_no_longer_exists(app: FastAPI, admin: Caller) -> None:
    entry = await admin.add("The harbour opens at six")
    async with connect(app, admin.token) as client:
        await fail(client, "kb_delete", 412, entry_id=entry["id"], version=2)
        deleted, text = await succeed(client, "kb_delete", entry_id=entry["id"], version=1)
        await fail(client, "kb_delete", 404, entry_id=entry["id"])
    assert deleted == {"deleted": entry["id"]}
    assert entry["id"] in text
    assert (await admin.get(f"/knowledge/entries/{entry['id']}")).status_code == 404


async def test_a_passage_of_a_document_cannot_be_deleted(
    app: FastAPI, admin: Caller, work: Callable[[], Awaitable[None]]
) -> None:
    await admin.upload("rules.md", b"# Opening\n\nThe harbour opens at six.", "text/markdown")
    await work()
    async with connect(app, admin.token) as client:
        found, _ = await succeed(client, "kb_search", query="harbour")
        problem = await fail(client, "kb_delete", 409, entry_id=found["results"][0]["id"])
    assert "delete the asset instead" in problem["detail"]
