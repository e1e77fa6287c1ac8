"""Who may read and change: pages of access."""

from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest

from app.auth.principal import Role
from app.composition.services import Services
from app.console.pages import access
from tests.console.browser import Browser, Page
from tests.console.conftest import SignIn
from tests.console.contents import ASSETS, ENTRIES, entry_id, facts, fields, join, offer, upload
from tests.fixtures.http.application import Work
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
    for text in (str(uuid4()), f"/console/assets/{entry}", "/console/entries/shelf", "x" * 20_000):
        refused = await browser.get(ACCESS, {"item": text})
        assert (refused.status, refused.one("[aria-invalid=true]").get("name")) == (422, "item"), text
        assert refused.one("#field-item").get("value") == text


async def test_people_and_items_are_found_by_a_search(
    browser: Browser, admin: Caller, work: Work, api_services: Services
) -> None:
    entry = (await admin.add("The pier closes at dusk", title="Closing time"))["id"]
    asset = (await admin.upload("a.md", b"A file on the pier", "text/markdown")).json()["id"]
    await work()
    await join(admin, "Pierrot").get("/knowledge/entries")
    await join(admin, "ann").get("/knowledge/entries")
    await api_services.subscriptions.close()
    page = await browser.get(ACCESS, {"item": " pier "})
    links = {link.text_content(): link.get("href") for link in page.all("[aria-label=Found] a")}
    assert links == {
        "Pierrot": f"{ACCESS}/subject?subject=Pierrot",
        "Closing time": f"{ACCESS}/entries/{entry}",
        "a.md": f"{ACCESS}/assets/{asset}",
    }
    assert [(await browser.get(address)).status for address in links.values()] == [200] * 3


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
        ({"subject": "new", "group": "finance, board"}, "finance, board", "3 of 3", ["The board meets", "The payroll"]),
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
    revoke = {"principal": "group:hr", "action": "revoke", "list": "readers", "principals": "group:hr", "apply": "true"}
    assert figures(await browser.post(CHANGE, revoke))["Changed"] == "2"
    writers = {"tag": "payroll", "action": "set", "list": "writers", "principals": "user:ada", "apply": "true"}
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


OPEN = {"Who may read": "all readers of the tenant", "Who may change": "all of its readers with the role creator"}


async def test_an_entry_names_its_readers_and_writers(sign_in: SignIn, admin: Caller) -> None:
    ann = sign_in(join(admin, "ann", "finance"))
    form = fields(await ann.get(f"{ENTRIES}/new"))
    assert (form["readers"], form["writers"]) == ("", "")
    open_entry = await ann.post(ENTRIES, {**form, "content": "The pier opens"})
    assert facts(await ann.get(f"{ENTRIES}/{entry_id(open_entry)}")).items() >= OPEN.items()
    lists = {"readers": 'user:ann,group: finance\r\n"group:CN=hr,OU=all"', "writers": "user:ann"}
    entry = entry_id(await ann.post(ENTRIES, {**form, "content": "The payroll", **lists}))
    stored = (await join(admin, "ann").get(f"/knowledge/entries/{entry}")).json()
    assert stored["readers"] == ["group:CN=hr,OU=all", "group:finance", "user:ann"]
    assert stored["writers"] == ["user:ann"]
    page = await ann.get(f"{ENTRIES}/{entry}")
    assert facts(page)["Who may read"] == "CN=hr,OU=all (group), finance (group), ann (user)"
    assert facts(page)["Who may change"] == "ann (user)"
    assert not page.all("a[href^='/console/access']"), "only an admin may look at callers"
    shown = fields(await ann.get(f"{ENTRIES}/{entry}/edit"))
    assert shown["readers"] == '"group:CN=hr,OU=all"\ngroup:finance\nuser:ann'
    ben = sign_in(join(admin, "ben", "board"))
    assert (await ben.get(f"{ENTRIES}/{entry}")).status == 404
    assert "The payroll" not in (await ben.get(ENTRIES)).text


async def test_a_form_changes_only_lists_that_it_has_and_that_differ(sign_in: SignIn, admin: Caller) -> None:
    ann = join(admin, "ann", "finance")
    entry = (await ann.add("The payroll", readers=["group:finance"], writers=["user:ann"]))["id"]
    page, path = sign_in(ann), f"{ENTRIES}/{entry}/edit"
    form = fields(await page.get(path))
    assert (await page.post(path, form)).status == 303
    stored = (await ann.get(f"/knowledge/entries/{entry}")).json()
    assert (stored["version"], stored["readers"]) == (1, ["group:finance"])
    without = {name: value for name, value in form.items() if name not in ("readers", "writers")}
    assert (await page.post(path, {**without, "title": "Pay"})).status == 303
    stored = (await ann.get(f"/knowledge/entries/{entry}")).json()
    assert (stored["title"], stored["readers"], stored["writers"]) == ("Pay", ["group:finance"], ["user:ann"])
    form = fields(await page.get(path))
    assert (await page.post(path, {**form, "readers": " ", "writers": ""})).status == 303
    stored = (await ann.get(f"/knowledge/entries/{entry}")).json()
    assert (stored["readers"], stored["writers"]) == (None, None)


@pytest.mark.parametrize(
    ("field", "label", "text", "message"),
    [
        ("readers", "Who may read", "group:finance\njane", "'jane' must be group:NAME or user:SUB"),
        ("readers", "Who may read", "group:hr", "must contain you or one of your groups"),
        ("writers", "Who may change", "group:hr", "must contain you or one of your groups"),
        ("writers", "Who may change", "team:hr", "'team:hr' must be group:NAME or user:SUB"),
    ],
)
async def test_a_refused_list_is_named_as_in_the_form(
    sign_in: SignIn, admin: Caller, field: str, label: str, text: str, message: str
) -> None:
    ann = join(admin, "ann", "finance")
    page = sign_in(ann)
    entry = (await ann.add("The payroll"))["id"]
    for path in (ENTRIES, f"{ENTRIES}/{entry}/edit"):
        sent = {"content": "The payroll", "entry_type": "fact", "version": "1", field: text}
        refused = await page.post(path, {**sent, "confidence": "1", "scope": "global", "roles": "all"})
        assert refused.status == 422, refused.text
        assert refused.texts(f"[role=alert] a[href='#field-{field}']") == [label]
        assert refused.texts(f"label[for=field-{field}]") == [label]
        assert message in refused.one(f"#field-{field}-error").text_content()
        assert refused.one(f"#field-{field}").get("aria-invalid") == "true"
        assert refused.one("details[open] textarea[name=readers]") is not None
        assert fields(refused)[field].strip() == text.strip()


async def test_a_reader_that_is_not_a_writer_gets_no_form(sign_in: SignIn, admin: Caller) -> None:
    ann, ben = join(admin, "ann", "finance"), join(admin, "ben", "finance")
    entry = (await ann.add("The payroll", readers=["group:finance"], writers=["user:ann"]))["id"]
    asset = (await ann.upload("a.md", b"A file", "text/markdown", writers=["user:ann"])).json()["id"]
    for place in (f"{ENTRIES}/{entry}", f"{ASSETS}/{asset}"):
        assert (await sign_in(ann).get(place)).all(f"a[href='{place}/edit']")
        assert not (await sign_in(ben).get(place)).all(f"a[href='{place}/edit']")
        assert not (await sign_in(ben).get(place)).all(f"a[href='{place}/delete']")
        form = fields(await sign_in(ann).get(f"{place}/edit"))
        refused = await sign_in(ben).post(f"{place}/edit", {**form, "title": "Mine"})
        assert refused.status == 403
        assert "writers" in refused.one("[role=alert]").text_content()
    assert (await ann.get(f"/knowledge/entries/{entry}")).json()["title"] is None
    rita = sign_in(join(admin, "rita", "finance", role=Role.READER))
    assert facts(await rita.get(f"{ENTRIES}/{entry}"))["Who may change"] == "ann (user)"


async def test_a_document_names_its_readers_and_so_do_its_passages(sign_in: SignIn, admin: Caller, work: Work) -> None:
    ann = join(admin, "ann", "finance")
    page = sign_in(ann)
    stored = await upload(page, "pay.md", b"# Pay\n\nThe payroll.", readers="group:finance, user:ben")
    place = str(stored.answer.headers["location"])
    await work()
    assert facts(await page.get(place))["Who may read"] == "finance (group), ben (user)"
    passage = (await ann.search("payroll", mode="keyword"))["results"][0]["id"]
    seen = await page.get(f"{ENTRIES}/{passage}")
    assert facts(seen)["Who may read"] == "finance (group), ben (user)"
    form = await page.get(f"{ENTRIES}/{passage}/edit")
    assert not form.all("[name=readers]")
    assert "readers and writers of the document" in form.one(".notice").text_content()
    assert (await page.post(f"{ENTRIES}/{passage}/edit", {**fields(form), "tags": "pay"})).status == 303
    changed = await page.post(f"{place}/edit", fields(await page.get(f"{place}/edit")) | {"readers": "user:ann"})
    assert changed.status == 303
    await work()
    assert facts(await page.get(place))["Who may read"] == "ann (user)"
    assert facts(await page.get(f"{ENTRIES}/{passage}"))["Who may read"] == "ann (user)"
    refused = await page.post(f"{place}/edit", fields(await page.get(f"{place}/edit")) | {"readers": "user:ben"})
    assert (refused.status, refused.texts("[role=alert] a")) == (422, ["Who may read"])


async def test_an_upload_keeps_or_names_readers(sign_in: SignIn, admin: Caller, work: Work) -> None:
    page = sign_in(join(admin, "ann", "finance"))
    first = await upload(page, "a.md", b"One", external_id="a", readers="group:finance", writers="user:ann")
    place = str(first.answer.headers["location"])
    again = await upload(page, "a.md", b"Two", external_id="a", readers="", writers="")
    assert str(again.answer.headers["location"]) == place
    await work()
    seen = facts(await page.get(place))
    assert (seen["Who may read"], seen["Who may change"]) == ("finance (group)", "ann (user)")
    for part in (True, False):
        refused = await upload(page, "b.md", b"Three", part=part, readers="jane")
        assert refused.status == 422
        assert "Who may read: 'jane' must be" in refused.one("[role=alert]").text_content()
    files = [("file", ("c.md", b"Four")), ("file", ("d.md", b"Five"))]
    refused = await page.post(ASSETS, {"readers": "group:hr"}, files=files)
    assert refused.status == 200
    assert "d.md was refused: Who may read: must contain you" in refused.texts("#upload-answer .warning")[1]


async def test_a_source_decides_for_its_documents(browser: Browser, sign_in: SignIn, admin: Caller, work: Work) -> None:
    ann = join(admin, "ann", "finance")
    manifest = {"items": [{"external_id": "a.md", "digest": "1"}], "readers": ["group:finance"]}
    made = (await ann.request("PUT", "/knowledge/sources/shelf", json=manifest)).json()
    place = {"source": "shelf", "run": made["run"], "external_id": "a.md"}
    asset = (await ann.upload("a.md", b"A file", "text/markdown", **place)).json()["id"]
    await work()
    page, path = sign_in(ann), f"{ASSETS}/{asset}"
    seen = facts(await page.get(path))
    assert (seen["Who may read"], seen["Decided by"]) == ("finance (group)", "the source shelf")
    form = await page.get(f"{path}/edit")
    assert not form.all("[name=readers], [name=writers]")
    assert "The source shelf decides" in form.one(".notice").text_content()
    assert (await page.post(f"{path}/edit", {**fields(form), "tags": "sea"})).status == 303
    stored = (await ann.get(f"/knowledge/assets/{asset}")).json()
    assert (stored["tags"], stored["readers"]) == (["sea"], ["group:finance"])
    refused = await page.post(f"{path}/edit", {**fields(await page.get(f"{path}/edit")), "readers": "user:ann"})
    assert refused.status == 422
    assert "source, shelf" in refused.one("[role=alert]").text_content()
