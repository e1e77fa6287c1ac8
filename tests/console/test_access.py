"""The page Access: who may read an item, and what a person may read."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest

from app.auth.principal import Role
from app.composition.services import Services
from tests.console.asset_pages import Work
from tests.console.browser import Browser
from tests.console.conftest import SignIn
from tests.console.entry_pages import facts
from tests.console.members import join, offer
from tests.fixtures.http.callers import Caller

ACCESS = "/console/access"
ALL = {"X-KB-Access": "all"}


async def see_everything(browser: Browser) -> None:
    assert (await browser.post("/console/everything", {"on": "true"})).status == 303


async def test_an_item_shows_its_lists_and_the_callers_that_pass(
    browser: Browser, admin: Caller, work: Work, api_services: Services
) -> None:
    ann, rita = join(admin, "ann", "finance"), join(admin, "rita", "finance", role=Role.READER)
    entry = await ann.add("The payroll", readers=["group:finance", "user:ben"], writers=["group:finance"])
    asset = (await ann.upload("a.md", b"A file", "text/markdown", readers=["group:finance"])).json()["id"]
    manifest = {"items": [{"external_id": "b.md", "digest": "1"}], "readers": ["user:ann"]}
    made = (await ann.request("PUT", "/knowledge/sources/shelf", json=manifest)).json()
    place = {"source": "shelf", "run": made["run"], "external_id": "b.md"}
    kept = (await ann.upload("b.md", b"Another", "text/markdown", **place)).json()["id"]
    await work()
    for caller in (rita, join(admin, "cleo", "board")):
        await caller.get("/knowledge/entries")
    await api_services.subscriptions.close()
    (hit,) = (await ann.search("file", mode="keyword"))["results"]
    offer(await browser.get(f"{ACCESS}/entries/{entry['id']}"))
    await see_everything(browser)

    own = await browser.get(f"/console/entries/{entry['id']}")
    page = await browser.get(own.one(f"a[href^='{ACCESS}']").get("href"))
    assert page.texts("h1") == ["Who may read The payroll?"]
    assert facts(page) == {
        "Entry": "The payroll",
        "Who may read": "finance (group), ben (user)",
        "Who may change": "finance (group)",
        "Decided by": "the entry itself",
    }
    rows = {row.cssselect("th")[0].text_content().strip(): row.text_content().split() for row in page.all("tbody tr")}
    assert rows.keys() == {"ann", "rita"}
    assert ("yes" in rows["ann"], "yes" in rows["rita"], "reader" in rows["rita"]) == (True, False, True)
    chunk = await browser.get(f"{ACCESS}/entries/{hit['id']}")
    assert facts(chunk)["Decided by"] == "its document"
    assert chunk.one(f"a[href='{ACCESS}/assets/{asset}']") is not None
    assert facts(await browser.get(f"{ACCESS}/assets/{asset}"))["Decided by"] == "the document itself"
    document = await browser.get(f"{ACCESS}/assets/{kept}")
    assert facts(document)["Decided by"].startswith("the source shelf")
    source = await browser.get(document.one(f"a[href='{ACCESS}/sources/shelf']").get("href"))
    assert facts(source)["Who may read"] == "ann (user)"
    assert facts(await browser.get("/console/sources/shelf"))["Who may read"] == "ann (user)"
    trail = (await admin.get("/admin/audit", params={"action": "access.read"}, headers=ALL)).json()["items"]
    assert {tuple(row["subject_ids"]) for row in trail} >= {(entry["id"],), (asset,)}


async def test_an_item_is_found_by_its_id_address_or_name(browser: Browser, admin: Caller, work: Work) -> None:
    entry = (await admin.add("The pier"))["id"]
    asset = (await admin.upload("a.md", b"A file", "text/markdown")).json()["id"]
    await admin.request("PUT", "/knowledge/sources/shelf", json={"items": []})
    await work()
    cases = {
        entry: f"entries/{entry}",
        f" http://console.test/console/entries/{entry}?done=created ": f"entries/{entry}",
        asset: f"assets/{asset}",
        f"/console/assets/{asset}/chunks?chunk=0#c": f"assets/{asset}",
        f"/console/access/assets/{asset}": f"assets/{asset}",
        "shelf": "sources/shelf",
        "https://kb.example.com/console/sources/shelf": "sources/shelf",
    }
    for text, place in cases.items():
        found = await browser.get(ACCESS, {"item": text})
        assert (found.status, found.answer.headers["location"]) == (303, f"{ACCESS}/{place}"), text
        assert (await browser.get(found.answer.headers["location"])).status == 200
    for text in (str(uuid4()), "cellar", f"/console/assets/{entry}", "/console/entries/shelf", "The pier"):
        refused = await browser.get(ACCESS, {"item": text})
        assert (refused.status, refused.one("[aria-invalid=true]").get("name")) == (422, "item"), text
        assert refused.one("#field-item").get("value") == text


async def test_what_a_person_may_read_is_counted_and_listed(
    browser: Browser, admin: Caller, api_services: Services
) -> None:
    ann = join(admin, "ann", "finance")
    await ann.add("The pier opens")
    await ann.add("The payroll", readers=["group:finance"])
    await join(admin, "cleo", "board").add("The board meets", readers=["group:board"])
    await api_services.subscriptions.close()
    path = f"{ACCESS}/subject"
    offer(await browser.get(path, {"subject": "ann"}))
    await see_everything(browser)
    cases = [
        ({"subject": "ann"}, "the groups of the last token: finance", "2 of 3", ["The payroll"]),
        ({"subject": "ann", "group": "board"}, "With these groups: board", "2 of 3", ["The board meets"]),
        ({"subject": "new"}, "no call of new", "1 of 3", []),
        (
            {"subject": "new", "group": "finance, board"},
            "finance, board",
            "3 of 3",
            ["The board meets", "The payroll"],
        ),
    ]
    for given, words, entries, items in cases:
        page = await browser.get(path, given)
        assert page.status == 200, page.text
        assert words in page.one(".lead").text_content()
        assert page.texts(".figures dd") == [entries, "0 of 0"]
        assert sorted(page.texts("tbody th")) == items
        assert page.one("#field-subject").get("value") == given["subject"]
    page = await browser.get(path, {"subject": "ann"})
    link = page.one(f"a[href^='{ACCESS}/change']").get("href")
    form = await browser.get(link)
    assert form.one("#field-principal").get("value") == "user:ann"
    assert form.texts("#field-action option[selected]") == ["remove from"]


async def test_the_items_of_a_person_have_pages(browser: Browser, admin: Caller) -> None:
    ann = join(admin, "ann", "finance")
    items = [{"content": f"Secret {n}", "readers": ["group:finance"]} for n in range(27)]
    assert (await ann.post("/knowledge/entries/bulk", {"entries": items})).status_code == 200
    await see_everything(browser)
    first = await browser.get(f"{ACCESS}/subject", {"subject": "x", "group": "finance"})
    assert len(first.all("tbody tr")) == 25
    address = first.one("a[rel=next]").get("href")
    assert parse_qs(urlsplit(address).query)["group"] == ["finance"]
    second = await browser.get(address)
    assert len(second.all("tbody tr")) == 2
    assert not {*first.texts("tbody th")} & {*second.texts("tbody th")}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "subject"),
        ({"subject": "a\x00b"}, "subject"),
        ({"subject": "x" * 300}, "subject"),
        ({"subject": "jane", "group": "a\x00b"}, "group"),
        ({"subject": "jane", "group": "hr, " + "x" * 300}, "group"),
        ({"subject": "jane", "cursor": "x"}, "cursor"),
    ],
)
async def test_a_person_that_no_token_can_name_is_refused_at_its_field(
    browser: Browser, given: dict[str, str], field: str
) -> None:
    page = await browser.get(f"{ACCESS}/subject", given)
    assert page.status == 422
    if field == "cursor":
        assert "ursor" in page.one("[role=alert]").text_content()
    else:
        assert page.one("[aria-invalid=true]").get("name") == field


async def test_names_of_groups_are_shown_as_text(browser: Browser, sign_in: SignIn, admin: Caller) -> None:
    script = "<script>alert(1)</script>"
    ann = join(admin, "ann", script)
    entry = (await ann.add("The payroll", readers=[f"group:{script}"]))["id"]
    await see_everything(browser)
    for path in (f"/console/entries/{entry}", f"{ACCESS}/entries/{entry}"):
        page = await browser.get(path)
        assert facts(page)["Who may read"] == f"{script} (group)"
    form = await sign_in(ann).get(f"/console/entries/{entry}/edit")
    assert f"group:{script}" in form.one("#field-readers").text_content()
    assert script in form.one("#principals-hint").text_content()
