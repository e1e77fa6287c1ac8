"""Who may read and change an entry or a document: the fields of the forms, and what pages show."""

from __future__ import annotations

import pytest

from app.auth.principal import Role
from tests.console import asset_pages
from tests.console.asset_pages import Work, upload
from tests.console.browser import Browser
from tests.console.conftest import SignIn
from tests.console.entry_pages import LIST, entry_id, facts, fields
from tests.console.members import join
from tests.fixtures.http.callers import Caller

OPEN = {
    "Who may read": "all readers of the tenant",
    "Who may change": "all of its readers with the role creator",
}


async def test_an_entry_names_its_readers_and_writers(sign_in: SignIn, admin: Caller) -> None:
    ann = sign_in(join(admin, "ann", "finance"))
    form = fields(await ann.get(f"{LIST}/new"))
    assert (form["readers"], form["writers"]) == ("", "")
    open_entry = await ann.post(LIST, {**form, "content": "The pier opens"})
    assert facts(await ann.get(f"{LIST}/{entry_id(open_entry)}")).items() >= OPEN.items()
    lists = {"readers": 'user:ann,group: finance\r\n"group:CN=hr,OU=all"', "writers": "user:ann"}
    entry = entry_id(await ann.post(LIST, {**form, "content": "The payroll", **lists}))
    stored = (await join(admin, "ann").get(f"/knowledge/entries/{entry}")).json()
    assert stored["readers"] == ["group:CN=hr,OU=all", "group:finance", "user:ann"]
    assert stored["writers"] == ["user:ann"]
    page = await ann.get(f"{LIST}/{entry}")
    assert facts(page)["Who may read"] == "CN=hr,OU=all (group), finance (group), ann (user)"
    assert facts(page)["Who may change"] == "ann (user)"
    assert not page.all("a[href^='/console/access']"), "only an admin may look at callers"
    shown = fields(await ann.get(f"{LIST}/{entry}/edit"))
    assert shown["readers"] == '"group:CN=hr,OU=all"\ngroup:finance\nuser:ann'
    ben = sign_in(join(admin, "ben", "board"))
    assert (await ben.get(f"{LIST}/{entry}")).status == 404
    assert "The payroll" not in (await ben.get(LIST)).text


async def test_a_form_changes_only_lists_that_it_has_and_that_differ(sign_in: SignIn, admin: Caller) -> None:
    ann = join(admin, "ann", "finance")
    entry = (await ann.add("The payroll", readers=["group:finance"], writers=["user:ann"]))["id"]
    page, path = sign_in(ann), f"{LIST}/{entry}/edit"
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
    for path in (LIST, f"{LIST}/{entry}/edit"):
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
    for place in (f"{LIST}/{entry}", f"{asset_pages.LIST}/{asset}"):
        assert (await sign_in(ann).get(place)).all(f"a[href='{place}/edit']")
        assert not (await sign_in(ben).get(place)).all(f"a[href='{place}/edit']")
        assert not (await sign_in(ben).get(place)).all(f"a[href='{place}/delete']")
        form = fields(await sign_in(ann).get(f"{place}/edit"))
        refused = await sign_in(ben).post(f"{place}/edit", {**form, "title": "Mine"})
        assert refused.status == 403
        assert "writers" in refused.one("[role=alert]").text_content()
    assert (await ann.get(f"/knowledge/entries/{entry}")).json()["title"] is None
    rita = sign_in(join(admin, "rita", "finance", role=Role.READER))
    assert facts(await rita.get(f"{LIST}/{entry}"))["Who may change"] == "ann (user)"


async def test_a_document_names_its_readers_and_so_do_its_passages(sign_in: SignIn, admin: Caller, work: Work) -> None:
    ann = join(admin, "ann", "finance")
    page = sign_in(ann)
    stored = await upload(page, "pay.md", b"# Pay\n\nThe payroll.", readers="group:finance, user:ben")
    place = str(stored.answer.headers["location"])
    await work()
    assert facts(await page.get(place))["Who may read"] == "finance (group), ben (user)"
    passage = (await ann.search("payroll", mode="keyword"))["results"][0]["id"]
    seen = await page.get(f"{LIST}/{passage}")
    assert facts(seen)["Who may read"] == "finance (group), ben (user)"
    form = await page.get(f"{LIST}/{passage}/edit")
    assert not form.all("[name=readers]")
    assert "readers and writers of the document" in form.one(".notice").text_content()
    assert (await page.post(f"{LIST}/{passage}/edit", {**fields(form), "tags": "pay"})).status == 303
    changed = await page.post(f"{place}/edit", fields(await page.get(f"{place}/edit")) | {"readers": "user:ann"})
    assert changed.status == 303
    await work()
    assert facts(await page.get(place))["Who may read"] == "ann (user)"
    assert facts(await page.get(f"{LIST}/{passage}"))["Who may read"] == "ann (user)"
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
    refused = await page.post(asset_pages.LIST, {"readers": "group:hr"}, files=files)
    assert refused.status == 200
    assert "d.md was refused: Who may read: must contain you" in refused.texts("#upload-answer .warning")[1]


async def test_a_source_decides_for_its_documents(browser: Browser, sign_in: SignIn, admin: Caller, work: Work) -> None:
    ann = join(admin, "ann", "finance")
    manifest = {"items": [{"external_id": "a.md", "digest": "1"}], "readers": ["group:finance"]}
    made = (await ann.request("PUT", "/knowledge/sources/shelf", json=manifest)).json()
    place = {"source": "shelf", "run": made["run"], "external_id": "a.md"}
    asset = (await ann.upload("a.md", b"A file", "text/markdown", **place)).json()["id"]
    await work()
    page, path = sign_in(ann), f"{asset_pages.LIST}/{asset}"
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
