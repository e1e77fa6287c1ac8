"""A change of the readers or writers of many items: counted first, and done in a second step."""

from __future__ import annotations

import pytest

from app.console.pages import access
from tests.console.asset_pages import Work
from tests.console.browser import Browser, Page
from tests.console.members import join
from tests.fixtures.http.callers import Caller

CHANGE = "/console/access/change"


def figures(page: Page) -> dict[str, str]:
    """The numbers of a preview, or of what was done."""
    assert page.status == 200, page.text
    return dict(zip(page.texts(".figures dt"), page.texts(".figures dd"), strict=True))


def confirmation(page: Page) -> dict[str, str]:
    """The form below the numbers."""
    return dict(page.one(".preview form").form_values())


async def readers_of(caller: Caller, entry: str) -> list[str] | None:
    answer = await caller.get(f"/knowledge/entries/{entry}", headers={"X-KB-Access": "all"})
    found: list[str] | None = answer.json()["readers"]
    return found


async def test_a_change_is_counted_first_and_done_after_a_confirmation(
    browser: Browser, admin: Caller, work: Work
) -> None:
    entry = (await admin.add("Payroll of May", tags=["payroll"], readers=["user:ada"]))["id"]
    await admin.add("The pier opens", tags=["pier"])
    file = (await admin.upload("a.md", b"Payroll", "text/markdown", tags="payroll", readers="user:ada")).json()["id"]
    await work()
    form = {"tag": "payroll", "action": "grant", "list": "readers", "principals": "group:hr, group: finance"}
    preview = await browser.post(CHANGE, form)
    assert figures(preview) == {"Found": "2", "Would be changed": "2", "Refused": "0"}
    assert await readers_of(admin, entry) == ["user:ada"], "a preview changes nothing"
    done = await browser.post(CHANGE, confirmation(preview))
    assert figures(done) == {"Found": "2", "Changed": "2", "Refused": "0"}
    assert not done.all(".preview form")
    assert await readers_of(admin, entry) == ["group:finance", "group:hr", "user:ada"]
    stored = (await admin.get(f"/knowledge/assets/{file}")).json()
    assert stored["readers"] == ["group:finance", "group:hr", "user:ada"]
    again = await browser.post(CHANGE, form)
    assert figures(again)["Would be changed"] == "0"
    assert "The others have the groups and users already" in again.text
    revoke = {
        "principal": "group:hr",
        "action": "revoke",
        "list": "readers",
        "principals": "group:hr",
        "apply": "true",
    }
    assert figures(await browser.post(CHANGE, revoke))["Changed"] == "2"
    writers = {
        "tag": "payroll",
        "action": "set",
        "list": "writers",
        "principals": "user:ada",
        "apply": "true",
    }
    assert figures(await browser.post(CHANGE, writers))["Changed"] == "2"
    everyone = {"tag": "payroll", "action": "set", "list": "readers", "principals": "", "apply": "true"}
    assert figures(await browser.post(CHANGE, everyone))["Changed"] == "2"
    assert await readers_of(admin, entry) is None


async def test_refused_items_are_named_in_words(browser: Browser, admin: Caller) -> None:
    open_entry = (await admin.add("Open", tags=["money"]))["id"]
    mine = (await admin.add("Mine", tags=["money"], readers=["user:ada"]))["id"]
    page = await browser.post(CHANGE, {"tag": "money", "action": "revoke", "principals": "user:ada"})
    assert figures(page) == {"Found": "2", "Would be changed": "0", "Refused": "2"}
    assert not page.all(".preview form"), "there is nothing to confirm"
    reasons = dict(zip([a.get("href") for a in page.all(".preview li a")], page.texts(".preview li"), strict=True))
    assert "Who may read: is null, which means all: set a list first" in reasons[f"/console/entries/{open_entry}"]
    assert "Who may read: would be empty" in reasons[f"/console/entries/{mine}"]


async def test_only_items_that_the_admin_sees_are_changed(browser: Browser, admin: Caller) -> None:
    ann = join(admin, "ann", "finance")
    hidden = (await ann.add("Hidden", tags=["money"], readers=["group:finance"]))["id"]
    form = {"tag": "money", "action": "grant", "principals": "user:ada", "apply": "true"}
    assert figures(await browser.post(CHANGE, form))["Found"] == "0"
    await browser.post("/console/everything", {"on": "true"})
    assert figures(await browser.post(CHANGE, form))["Changed"] == "1"
    assert await readers_of(admin, hidden) == ["group:finance", "user:ada"]


async def test_what_one_request_does_not_reach_is_left_to_the_next(
    browser: Browser, admin: Caller, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "MOST_CHANGED", 1)
    await admin.add("Payroll", tags=["payroll"], readers=["user:ada"])
    await admin.upload("a.md", b"Payroll", "text/markdown", tags="payroll", readers="user:ada")
    await work()
    form = {"tag": "payroll", "action": "grant", "principals": "group:hr", "apply": "true"}
    first = await browser.post(CHANGE, form)
    assert figures(first)["Changed"] == "1"
    assert "There are more items than one request changes" in first.text
    second = await browser.post(CHANGE, confirmation(first))
    assert figures(second)["Changed"] == "1"
    assert not second.all(".preview form")


@pytest.mark.parametrize(
    ("given", "field", "label"),
    [
        ({"tag": ""}, "tag", "With the tag"),
        ({"principal": "hr"}, "principal", "Whose lists name"),
        ({"principal": "group:a, group:b"}, "principal", "Whose lists name"),
        ({"principals": ""}, "principals", "Groups and users"),
        ({"principals": "hr"}, "principals", "Groups and users"),
        ({"action": "lend"}, "action", "Change"),
        ({"list": "owners"}, "list", "List"),
    ],
)
async def test_a_refused_change_names_its_field(
    browser: Browser, given: dict[str, str], field: str, label: str
) -> None:
    page = await browser.post(CHANGE, {"tag": "payroll", "principals": "group:hr", **given})
    assert page.status == 422
    assert page.one("[aria-invalid=true]").get("name") == field
    assert page.texts(f"[role=alert] a[href='#field-{field}']") == [label]


async def test_a_place_that_does_not_exist_is_refused(browser: Browser) -> None:
    page = await browser.post(CHANGE, {"tag": "payroll", "principals": "group:hr", "cursor": "x"})
    assert page.status == 422
    assert "ursor" in page.one("[role=alert]").text_content()
