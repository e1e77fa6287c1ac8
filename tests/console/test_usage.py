"""What a tenant and its callers use, only for admins."""

from __future__ import annotations

from tests.console.browser import Browser
from tests.fixtures.http.callers import Caller

USAGE = "/console/usage"


async def test_limits_are_shown_with_their_use(browser: Browser, admin: Caller) -> None:
    for number in range(3):
        await admin.add(f"Fact {number}")
    await admin.patch("/admin/settings", {"limits": {"entries": 4}})
    page = await browser.get(USAGE)
    assert page.status == 200
    meter = page.one('meter[aria-labelledby="limit-entries"]')
    assert (meter.get("value"), meter.get("max"), meter.text) == ("3", "4", "75 %")
    kinds = page.texts("section[aria-labelledby=records-heading] tbody th")
    assert kinds == [
        *("Receipts of searches", "Feedback", "Audit trail", "Saved searches", "Webhook messages"),
        "Former versions",
    ]


async def test_callers_are_counted_by_their_searches_and_changes(
    browser: Browser, admin: Caller, reader: Caller, stranger: Caller
) -> None:
    await admin.add("The harbour")
    await stranger.add("Not counted")
    await reader.search("harbour")
    await reader.search("zeppelin", mode="keyword")
    await reader.post("/knowledge/entries", {"content": "Not allowed"})
    callers = {row["subject"]: row for row in (await admin.get("/admin/callers")).json()["items"]}
    rita = callers["rita"]
    assert (rita["searches"], rita["without_results"], rita["changes"], rita["refused"]) == (2, 1, 0, 1)
    (own,) = (row for name, row in callers.items() if name != "rita")
    assert (own["searches"], own["p95_ms"]) == (0, None)
    assert own["changes"] >= 1
    page = await browser.get(USAGE)
    assert set(page.texts("section[aria-labelledby=callers-heading] tbody th")) == set(callers)
    found = await browser.get(page.one('a[href="/console/receipts?subject=rita"]').get("href"))
    assert len(found.all("tbody tr")) == 2
