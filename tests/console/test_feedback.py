"""Feedback and searches without results, with the steps that help, only for admins."""

from __future__ import annotations

from app.composition.services import Services
from tests.console.browser import Browser
from tests.fixtures.http.callers import Caller

FEEDBACK = "/console/feedback"
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"


async def test_queries_are_named_only_where_they_are_kept(
    browser: Browser, admin: Caller, api_services: Services
) -> None:
    await admin.search("zeppelin", mode="keyword")
    await api_services.journal.flush()
    page = await browser.get(FEEDBACK)
    assert page.texts(".figures dd") == ["1", "0", "0"]
    assert "The texts of queries are not kept" in page.text
    assert "zeppelin" not in page.text


async def test_each_query_without_results_leads_to_what_helps(
    browser: Browser, admin: Caller, api_services: Services
) -> None:
    await admin.patch("/admin/settings", {"keep_query_text": True})
    entry = await admin.add(f"The harbour {SCRIPT}", title=SCRIPT)
    found = await admin.search("harbour", mode="keyword")
    body = {"search_id": found["metadata"]["search_id"], "entry_id": entry["id"], "relevant": False}
    assert (await admin.post("/knowledge/feedback", body)).status_code == 200
    await admin.search(f"zeppelin {SCRIPT}", mode="keyword", tags=["none"])
    await api_services.journal.flush()
    page = await browser.get(FEEDBACK)
    assert not page.all("main script, main img")
    missed = page.all("section[aria-labelledby=empty-heading] tbody a")
    assert missed[0].text == f"zeppelin {SCRIPT}"
    assert (await browser.get(missed[0].get("href"))).status == 200
    written = await browser.get(missed[1].get("href"))
    assert written.one("#field-title").get("value") == f"zeppelin {SCRIPT}"
    why = await browser.get(missed[2].get("href"))
    assert why.status == 200
    asked = dict(why.one('form[action="/console/why-not"]').form_values())
    told = await browser.get("/console/why-not", asked | {"entry_id": entry["id"]})
    assert "The entry is" in told.text

    (disliked,) = page.texts("section[aria-labelledby=disliked-heading] tbody tr")
    assert disliked.startswith(f"{SCRIPT} 1 0 harbour")
    steps = [a.get("href") for a in page.all("section[aria-labelledby=disliked-heading] td.row-actions a")]
    assert [(await browser.get(step)).status for step in steps] == [200, 200]


async def test_an_empty_tenant_has_a_page(browser: Browser) -> None:
    page = await browser.get(FEEDBACK)
    assert "Every search found something." in page.text
    assert "No result was marked as not useful." in page.text
