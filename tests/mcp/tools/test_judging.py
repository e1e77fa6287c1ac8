"""Feedback, saved searches and the reasons why an entry was not found."""

from __future__ import annotations

from fastapi import FastAPI

from tests.fixtures.http.callers import Caller
from tests.fixtures.http.mcp_client import connect, fail, succeed
from tests.mcp.tools.comparing import without_times


async def test_feedback_counts_as_over_http(app: FastAPI, admin: Caller, reader: Caller) -> None:
    entry = await admin.add("The harbour opens at six")
    other = await admin.add("Cranes are serviced in March")
    async with connect(app, reader.token) as client:
        found, _ = await succeed(client, "kb_search", query="harbour opens", tags=None)
        search_id = found["metadata"]["search_id"]
        given, text = await succeed(client, "kb_feedback", search_id=search_id, entry_id=entry["id"], relevant=False)
        if other["id"] not in {hit["id"] for hit in found["results"]}:
            await fail(client, "kb_feedback", 422, search_id=search_id, entry_id=other["id"], relevant=True)
    async with connect(app, admin.token) as client:
        await fail(client, "kb_feedback", 404, search_id=search_id, entry_id=entry["id"], relevant=True)
    assert (given["entry_id"], given["relevant"]) == (entry["id"], False)
    assert "not relevant" in text
    report = (await admin.get("/admin/feedback")).json()
    assert (report["relevant"], report["not_relevant"]) == (0, 1)


async def test_saved_searches_of_the_caller_are_listed_and_run(app: FastAPI, admin: Caller, reader: Caller) -> None:
    await admin.add("The harbour opens at six")
    request = {"query": "harbour", "limit": 3, "facets": ["tags"]}
    saved = (await reader.post("/knowledge/saved-searches", {"name": "Opening times", "request": request})).json()
    over_http = (await reader.post(f"/knowledge/saved-searches/{saved['id']}/run")).json()
    async with connect(app, reader.token) as client:
        listed, text = await succeed(client, "kb_saved_searches")
        run, said = await succeed(client, "kb_saved_searches", saved_search_id=saved["id"])
        brief, _ = await succeed(client, "kb_saved_searches", saved_search_id=saved["id"], token_budget=300)
    assert (listed["items"], listed["result"]) == ([saved], None)
    assert "Opening times" in text
    assert run["items"] is None
    for hit in run["result"]["results"]:
        del hit["citation"], hit["content_cut"], hit["flags"]
    del run["result"]["budget"], run["result"]["notes"]
    assert without_times(run["result"]) == without_times(over_http)
    assert "The harbour opens at six" in said
    assert brief["result"]["budget"]["token_budget"] == 300
    async with connect(app, admin.token) as client:
        theirs, said = await succeed(client, "kb_saved_searches")
        await fail(client, "kb_saved_searches", 404, saved_search_id=saved["id"])
    assert theirs["items"] == []
    assert said == "There are no saved searches."


async def test_why_not_names_the_filter_that_excludes_an_entry(app: FastAPI, admin: Caller, reader: Caller) -> None:
    entry = await admin.add("The harbour opens at six", tags=["harbour"], external_id="RUN-7")
    async with connect(app, reader.token) as client:
        missed, text = await succeed(client, "kb_why_not", query="harbour", tags=["cranes"], entry_id="RUN-7")
        found, said = await succeed(client, "kb_why_not", query="harbour", entry_id=entry["id"])
    assert missed["entry_id"] == entry["id"]
    assert missed["reasons"] == [{"stage": "filter", "detail": "tags does not match"}]
    assert "- filter: tags does not match" in text
    assert found["in_results"]
    assert said == "The entry is among the results, at rank 1."
