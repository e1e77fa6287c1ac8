"""Types of problems: each is told apart, documented at its address, and the same over every way in."""

from __future__ import annotations

import inspect

import httpx
from fastapi import FastAPI

from app import errors
from app.contract.problems import TYPES, type_of_error
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_problem
from tests.fixtures.http.mcp_client import connect

ENTRIES = "/knowledge/entries"
UNKNOWN = "0b6f0a5e-5b0c-4d0a-9f0e-3a1d2c4b5e6f"


def test_every_error_of_a_service_has_a_type_and_every_conflict_its_own() -> None:
    kinds = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.KnowledgeError)}
    # A reranker that fails degrades a search, and no caller gets its error; only the command line calls other services.
    inside = {
        errors.KnowledgeError,
        errors.ConfigurationError,
        errors.ProviderUnavailable,
        errors.RerankerUnavailable,
        errors.ServiceUnreachable,
    }
    for kind in kinds - inside:
        found = type_of_error(kind)
        assert found is not None, kind
        assert found.error is kind, kind


def test_openapi_lists_every_type(app: FastAPI) -> None:
    document = app.openapi()
    assert document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"] == [
        f"/problems/{name}" for name in TYPES
    ]


async def test_every_type_has_a_page_without_a_token(http: httpx.AsyncClient) -> None:
    index = await http.get("/problems")
    assert index.status_code == 200
    for kind in TYPES.values():
        assert kind.uri in index.text
        page = await http.get(kind.uri)
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert f"Status {kind.status}," in page.text
        for outside in ("http://", "https://", "src="):
            assert outside not in page.text
    expect_problem(await http.get("/problems/nothing"), 404)


async def test_conflicts_of_entries_name_the_other_entry(admin: Caller) -> None:
    one = await admin.add("The harbour opens at six", external_id="H1")
    two = await admin.add("The lighthouse is red")
    three = await admin.add("The quay is wet")
    for change, other in (({"external_id": "H1"}, one), ({"content": "The quay is wet"}, three)):
        body = expect_problem(await admin.patch(f"{ENTRIES}/{two['id']}", change), 409)
        assert body["type"] == "/problems/entry-exists"
        assert body["existing_id"] == other["id"]
        assert other["id"] in body["detail"]


async def test_a_removed_external_id_names_the_entry_with_the_same_content(admin: Caller) -> None:
    other = await admin.add("The lighthouse is red")
    named = await admin.add("The lighthouse is red", external_id="H1")
    body = expect_problem(await admin.patch(f"{ENTRIES}/{named['id']}", {"external_id": None}), 409)
    assert body["existing_id"] == other["id"]
    assert body["detail"] == f"another entry has the same content: {other['id']}"


async def test_problems_of_one_status_have_different_types(admin: Caller, http: httpx.AsyncClient) -> None:
    asset = (await admin.upload("a.txt", b"The lighthouse is red", "text/plain")).json()
    entry = await admin.add("The harbour opens at six")
    stale = {"If-Match": '"9"'}
    answers = {
        "entry-not-found": await admin.get(f"{ENTRIES}/{UNKNOWN}"),
        "asset-not-found": await admin.get(f"/knowledge/assets/{UNKNOWN}"),
        "saved-search-not-found": await admin.get(f"/knowledge/saved-searches/{UNKNOWN}"),
        "model-change-not-found": await admin.get("/admin/reembed"),
        "search-not-found": await admin.get(f"/admin/searches/{UNKNOWN}"),
        "no-such-path": await admin.get("/nothing"),
        "text-not-ready": await admin.get(f"/knowledge/assets/{asset['id']}/text"),
        "not-failed": await admin.post(f"/knowledge/assets/{asset['id']}/retry"),
        "stale-etag": await admin.patch(f"{ENTRIES}/{entry['id']}", {"tags": []}, headers=stale),
        "unauthenticated": await http.get(ENTRIES),
        "forbidden": await admin.get("/admin/tenants"),
        "method-not-allowed": await admin.request("PUT", ENTRIES),
        "invalid-input": await admin.get(f"{ENTRIES}?limit=0"),
        "unsupported-media-type": await admin.post(ENTRIES, content=b"a=1"),
    }
    for name, answer in answers.items():
        assert answer.json()["type"] == f"/problems/{name}", name
        expect_problem(answer, TYPES[name].status)


async def test_a_tool_refuses_with_the_same_type(app: FastAPI, admin: Caller) -> None:
    await admin.add("The harbour opens at six", external_id="H1")
    async with connect(app, admin.token) as client:
        refused = await client.call_tool("kb_search", {"query": "x", "limit": 51})
        assert refused.is_error
        assert refused.structured_content is not None
        assert refused.structured_content["type"] == "/problems/invalid-input"
