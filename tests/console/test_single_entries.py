"""The view of one entry on the search page: why it is missing, and its related entries."""

from __future__ import annotations

import json
from uuid import uuid4

from app.contract.search import SearchQuery
from tests.console.browser import Browser
from tests.fixtures.http.callers import Caller


async def test_why_not_names_what_excluded_an_entry(browser: Browser, admin: Caller) -> None:
    entry = await admin.add("The boat", tags=["sea"], external_id="BOAT-1")
    await admin.add("The bell")
    asked = {"query": "bell", "mode": "keyword"}
    reasons = await browser.get("/console/why-not", {**asked, "entry_id": entry["id"]})
    assert "shares no word with the query" in reasons.one("#why-not-answer").text_content()
    address = f"http://kb.example/console/entries/{entry['id']}"
    named = await browser.get("/console/why-not", {**asked, "entry_id": address})
    assert "shares no word with the query" in named.one("#why-not-answer").text_content()
    filtered = await browser.get("/console/why-not", {**asked, "tags": "air", "entry_id": entry["id"]})
    assert "tags does not match" in filtered.one("#why-not-answer").text_content()
    there = await browser.get("/console/why-not", {"query": "boat", "mode": "keyword", "entry_id": entry["id"]})
    assert "at rank 1" in there.one("#why-not-answer").text_content()
    by_name = await browser.get("/console/why-not", {**asked, "entry_id": "BOAT-1"})
    assert "shares no word with the query" in by_name.one("#why-not-answer").text_content()
    none = await browser.get("/console/why-not", {**asked, "entry_id": str(uuid4())})
    assert "there is no entry with this id" in none.one("#why-not-answer").text_content()
    for wrong in ({"entry_id": "x"}, {"entry_id": "a\x00"}, {"entry_id": str(uuid4()), "limit": "99"}):
        assert (await browser.get("/console/why-not", {**asked, **wrong})).status == 422
    unasked = await browser.get("/console/why-not", asked)
    assert unasked.status == 200
    assert unasked.one("#why-not-answer").text_content().strip() == "Name the entry that the search should find."


async def test_the_search_page_asks_why_not_for_the_same_search(browser: Browser, admin: Caller) -> None:
    await admin.add("The bell", tags=["sea"])
    page = await browser.search("bell", tags="sea", explain="true", boost="type")
    hidden = page.all("form[action='/console/why-not'] input[type=hidden]")
    assert {e.get("name"): e.get("value") for e in hidden} == {
        "query": "bell",
        "tags": "sea",
        "boost": "type",
    }
    saved = page.one("form[action='/console/saved-searches'] input[name=request]").get("value")
    assert SearchQuery(**json.loads(saved)).tags == ("sea",)


async def test_related_entries_are_shown_by_relationship(browser: Browser, admin: Caller) -> None:
    parent = await admin.add("The harbour", title="Harbour")
    entry = await admin.add("The bell", parent_id=parent["id"], tags=["a", "b"])
    await admin.add("The boat", tags=["a", "b"])
    page = await browser.get(f"/console/related/{entry['id']}")
    assert page.texts("#related h2") == ["Part of", "Same tags"]
    assert page.texts("#related li a") == ["Harbour", "The boat"]
    assert "2 shared tags" in page.text
    assert (await browser.get("/console/related/no-id")).status == 422
    lonely = await browser.get(f"/console/related/{uuid4()}")
    assert (lonely.status, lonely.one("#related").text_content().strip()) == (
        200,
        "There are no related entries.",
    )
