"""The receipts of searches in the console, only for admins."""

from __future__ import annotations

from uuid import uuid4

from app.composition.services import Services
from tests.console.browser import Browser
from tests.fixtures.http.callers import Caller

LIST = "/console/receipts"
SCRIPT = "<script>alert(1)</script>"


async def test_the_list_shows_the_same_searches_as_the_api(browser: Browser, admin: Caller) -> None:
    await admin.add("The harbour")
    found = await admin.search("harbour")
    empty = await admin.search("zeppelin", mode="keyword")
    listed = (await admin.get("/admin/searches")).json()["items"]
    assert [line["id"] for line in listed] == [result["metadata"]["search_id"] for result in (empty, found)]
    assert [(line["result_count"], line["query"]) for line in listed] == [(0, None), (1, None)]
    page = await browser.get(LIST)
    assert [a.get("href") for a in page.all("tbody th a")] == [f"{LIST}/{line['id']}" for line in listed]
    assert "harbour" not in page.text, "queries are not kept"
    only = await browser.get(LIST, {"without_results": "true"})
    assert len(only.all("tbody tr")) == 1
    assert not (await browser.get(LIST, {"subject": "another caller"})).all("tbody tr")
    by_name = (await admin.get("/admin/searches", params={"subject": listed[0]["subject"]})).json()
    assert len(by_name["items"]) == 2


async def test_pages_of_the_list_follow_each_other(browser: Browser, admin: Caller) -> None:
    for number in range(27):
        await admin.search(f"query {number}", mode="keyword")
    first = await browser.get(LIST, {"without_results": "true"})
    second = await browser.get(first.one("a[rel=next]").get("href"))
    seen = [a.get("href") for page in (first, second) for a in page.all("tbody th a")]
    assert len(seen) == len(set(seen)) == 27


async def test_a_receipt_shows_the_ranking_and_the_settings(browser: Browser, admin: Caller) -> None:
    await admin.patch("/admin/settings", {"keep_query_text": True})
    entry = await admin.add(f"The harbour {SCRIPT}", title=SCRIPT, tags=["sea"])
    found = await admin.search(f"harbour {SCRIPT}", mode="keyword", tags=["sea"])
    page = await browser.get(f"{LIST}/{found['metadata']['search_id']}")
    assert page.status == 200
    assert page.texts("h1") == [f"harbour {SCRIPT}"]
    assert page.one("tbody th a").get("href") == f"/console/entries/{entry['id']}"
    facts = dict(zip(page.texts("dl.facts dt"), page.texts("dl.facts dd"), strict=True))
    assert (facts["Mode"], facts["Tags"]) == ("keyword", "sea")
    again = await browser.get(page.one("dl.facts dd a").get("href"))
    assert again.status == 200
    assert again.all(".hit")
    assert not page.all("main script")


async def test_a_search_is_run_again_with_its_query(browser: Browser, admin: Caller, api_services: Services) -> None:
    entry = await admin.add("The harbour", title="Harbour")
    found = await admin.search("harbour", mode="keyword")
    address = f"{LIST}/{found['metadata']['search_id']}"
    assert (await browser.get(address)).one("#query") is not None
    refused = await browser.post(f"{address}/replay", {"query": "boats"})
    assert refused.status == 422
    assert "is not the query of this search" in refused.one("#query-error").text
    same = await browser.post(f"{address}/replay", {"query": "harbour"})
    assert same.texts("#replay h2") == ["The same ranking again"]
    await admin.delete(f"/knowledge/entries/{entry['id']}")
    other = await browser.post(f"{address}/replay", {"query": "harbour"})
    assert other.texts("#replay h2") == ["1 candidate differs"]
    assert other.texts("#replay tbody td")[-1] == "deleted"
    await api_services.journal.flush()
    assert (await admin.get("/admin/stats")).json()["searches_24h"] == 1


async def test_an_unknown_receipt_is_not_found(browser: Browser) -> None:
    assert (await browser.get(f"{LIST}/{uuid4()}")).status == 404
    assert (await browser.post(f"{LIST}/{uuid4()}/replay", {"query": "x"})).status == 404
    assert (await browser.get(LIST, {"subject": "a\x00b"})).status == 422
