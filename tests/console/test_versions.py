"""Former versions of entries and documents on pages."""

from __future__ import annotations

from uuid import uuid4

from tests.console.asset_pages import Work, upload
from tests.console.browser import Browser
from tests.console.conftest import SignIn
from tests.fixtures.http.callers import Caller


async def test_former_versions_of_an_entry_are_shown_latest_first(
    browser: Browser, admin: Caller, sign_in: SignIn, reader: Caller
) -> None:
    await admin.patch("/admin/settings", {"keep_versions_days": 30})
    entry = await admin.add("The bell rings at noon", title="Bell", tags=["sea"])
    address = f"/console/entries/{entry['id']}"
    assert not (await browser.get(address)).all(f"a[href='{address}/versions']")
    for text in ("The bell rings at one", "The bell rings at two"):
        await admin.patch(f"/knowledge/entries/{entry['id']}", {"content": text})
    link = (await browser.get(address)).one(f"a[href='{address}/versions']")
    for visitor in (browser, sign_in(reader)):
        page = await visitor.get(link.get("href"))
        assert page.status == 200
        assert page.texts("pre.text") == ["The bell rings at one", "The bell rings at noon"]
        assert "kept for 30 days" in page.text
    await admin.delete(f"/knowledge/entries/{entry['id']}")
    assert len((await browser.get(f"{address}/versions")).all("pre.text")) == 3, "also of a deleted entry"


async def test_the_passages_of_a_former_version_are_together(browser: Browser, admin: Caller, work: Work) -> None:
    await admin.patch("/admin/settings", {"keep_versions_days": 1})
    former = "".join(f"# {name}\n\n" + f"The bell of {name} rings. " * 60 + "\n\n" for name in ("iron", "tin"))
    for text in (former, "# Lead"):
        await upload(browser, "bells.md", text.encode(), external_id="bells")
        await work()
    page = await browser.get("/console/assets")
    asset = page.one("tbody th > a").get("href")
    shown = await browser.get(asset)
    versions = await browser.get(shown.one("dl.facts a[href$='/versions']").get("href"))
    assert len(versions.all("main section")) == 1
    assert versions.texts("summary") == ["iron", "tin"]
    assert ["bell of iron" in text for text in versions.texts("pre.text")] == [True, False]
    assert "kept for 1 day." in versions.text


async def test_a_tenant_without_versions_is_told_how_to_keep_them(
    browser: Browser, admin: Caller, sign_in: SignIn, reader: Caller
) -> None:
    entry = await admin.add("The bell")
    path = f"/console/entries/{entry['id']}/versions"
    setting = (await browser.get(path)).one(".lead a").get("href")
    page, _, field = setting.partition("#")
    assert (await browser.get(page)).all(f"#{field}")
    assert "An admin can change that." in (await sign_in(reader).get(path)).text
    assert (await browser.get(f"/console/entries/{uuid4()}/versions")).status == 404
