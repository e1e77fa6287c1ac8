"""The pages of entries: read, written, changed and deleted by callers with the role, and shown as text."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from tests.console.browser import ADDRESS, Browser
from tests.console.conftest import SignIn
from tests.console.entry_pages import LIST, facts, fields
from tests.fixtures.http.callers import Caller
from tests.fixtures.providers.failing import FailingProvider

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'"


async def test_the_list_shows_the_newest_first_and_continues(browser: Browser, admin: Caller) -> None:
    await admin.post("/knowledge/entries/bulk", {"entries": [{"content": f"Fact number {n:02}"} for n in range(27)]})
    page = await browser.get(LIST)
    names = page.texts("tbody th a")
    assert names == [f"Fact number {n:02}" for n in range(26, 1, -1)]
    older = await browser.get(page.one("a[rel=next]").get("href"))
    assert older.texts("tbody th a") == ["Fact number 01", "Fact number 00"]
    assert not older.all("a[rel=next]")


async def test_the_list_is_filtered_by_type_tag_and_source(browser: Browser, admin: Caller, work: Any) -> None:
    await admin.add("A lesson", entry_type="lesson", tags=["sea, deep"])
    await admin.add("A fact", tags=["land"])
    asset = (await admin.upload("a.txt", b"A chunk", "text/plain")).json()
    await work()
    for condition, expected in (
        ({}, ["A fact", "A lesson"]),
        ({"source": "any"}, ["A chunk", "A fact", "A lesson"]),
        ({"entry_type": "chunk"}, ["A chunk"]),
        ({"asset_id": asset["id"]}, ["A chunk"]),
        ({"entry_type": "lesson"}, ["A lesson"]),
        ({"tag": "sea, deep"}, ["A lesson"]),
        ({"source": "asset"}, ["A chunk"]),
        ({"source": "entry"}, ["A fact", "A lesson"]),
        ({"source": "entry", "tag": "land", "entry_type": "", "asset_id": ""}, ["A fact"]),
        ({"tag": "sea"}, []),
    ):
        page = await browser.get(LIST, condition)
        assert page.texts("tbody th > a") == expected, condition
    assert "No matching entries" in page.text
    shown = await browser.get(LIST, {"entry_type": "lesson", "source": "entry"})
    assert shown.one("#entry_type option[selected]").text == "lesson"
    assert shown.one("#source option[selected]").get("value") == "entry"
    for bad in ({"entry_type": "x"}, {"source": "x"}, {"asset_id": "x"}, {"cursor": "x"}, {"tag": "\x00"}):
        assert (await browser.get(LIST, bad)).status == 422, bad


async def test_the_list_shows_texts_as_they_read(browser: Browser, admin: Caller, work: Any) -> None:
    await admin.upload("a.md", b"# Boats\n\n## At night\n\nThey **moor** at the `quay`.", "text/markdown")
    await work()
    page = await browser.get(LIST, {"source": "any"})
    assert page.texts("tbody th .faint")[0] == "They moor at the quay."


async def test_the_list_marks_only_entries_whose_vector_is_pending(
    browser: Browser, admin: Caller, provider: FailingProvider
) -> None:
    await admin.add("Ready")
    provider.down = True
    await admin.add("Waiting")
    rows = dict(zip(*map((await browser.get(LIST)).texts, ("tbody th", "td[data-label=Type]")), strict=True))
    assert rows == {"Ready": "fact", "Waiting": "fact vector pending"}


async def test_an_entry_is_shown_with_its_model_passages_and_neighbours(
    browser: Browser, admin: Caller, provider: FailingProvider
) -> None:
    parent = await admin.add("The harbour", title="Harbour", tags=["sea", "night"])
    old = await admin.add("The old bell")
    entry = await admin.add(
        "word " * 2000, title="Bell", tags=["sea", "night"], parent_id=parent["id"], source_ids=[old["id"]],
        metadata={"a": {"b": 1}}, external_id="bell-1", confidence=0.5,
    )  # fmt: skip
    await admin.patch(f"/knowledge/entries/{old['id']}", {"superseded_by_id": entry["id"]})
    await admin.add("A part of the bell", parent_id=entry["id"])
    page = await browser.get(f"{LIST}/{entry['id']}")
    assert page.answer.headers["etag"] == '"1"'
    assert page.texts("h1") == ["Bell"]
    assert page.one("pre.text").text_content() == "word " * 2000
    headings = page.texts("section[aria-labelledby=around-heading] h3")
    assert headings == ["Part of", "Parts", "Derived from"], "each related entry once"
    links = [a.get("href") for a in page.all("section[aria-labelledby=around-heading] li a")]
    assert len(links) == len(set(links)) == 3
    assert f"{provider.model.provider}/{provider.model.name}" in page.text
    shown = facts(page)
    expected = {
        "External id": "bell-1",
        "Confidence": "0.5",
        "Dimensions": "16",
        "State": "ready",
        "Version": "1",
    }
    assert {name: shown[name] for name in expected} == expected
    assert '"b": 1' in shown["Metadata"]
    assert len(page.all("ol.passages li")) > 1
    assert page.texts("ol.passages li")[0].startswith("Bell word word")
    replaced = await browser.get(f"{LIST}/{old['id']}")
    assert "searches skip this entry" in replaced.text
    provider.down = True
    waiting = await admin.add("Waits for its vector")
    assert "pending" in (await browser.get(f"{LIST}/{waiting['id']}")).text
    assert "pending" in (await browser.get(LIST)).texts("tbody tr")[0]


async def test_a_reader_is_offered_no_change(sign_in: SignIn, reader: Caller, admin: Caller) -> None:
    browser, entry = sign_in(reader), await admin.add("A fact")
    path = f"{LIST}/{entry['id']}"
    for page in (await browser.get(LIST), await browser.get(path)):
        assert page.status == 200
        assert not page.all("main a[href*=edit], main a[href*=delete], main a[href*=new]")
    for wrong in (f"{LIST}/new", f"{path}/edit", f"{path}/delete"):
        refused = await browser.get(wrong)
        assert (refused.status, len(refused.all("[role=alert]"))) == (403, 1), wrong
    for wrong in (LIST, f"{path}/edit", f"{path}/delete"):
        assert (await browser.post(wrong, {"content": "Mine", "version": "1"})).status == 403, wrong
    assert (await admin.get(f"/knowledge/entries/{entry['id']}")).json() == entry


async def test_another_tenants_entry_is_answered_like_a_missing_one(browser: Browser, stranger: Caller) -> None:
    foreign, unknown = (await stranger.add("Foreign canary"))["id"], str(uuid4())

    async def answers(entry: str) -> list[tuple[int, str]]:
        pages = [await browser.get(f"{LIST}/{entry}{tail}") for tail in ("", "/edit", "/delete")]
        form = {
            "content": "Mine",
            "version": "1",
            "roles": "all",
            "confidence": "1",
            "scope": "global",
            "entry_type": "fact",
        }
        pages += [await browser.post(f"{LIST}/{entry}{tail}", form) for tail in ("/edit", "/delete")]
        pages.append(await browser.post(LIST, {**form, "parent_id": entry}))
        return [
            (
                p.status,
                " ".join(p.texts("h1") + [alert.split(" · request")[0] for alert in p.texts("[role=alert]")]),
            )
            for p in pages
        ]

    found = await answers(foreign)
    assert found == await answers(unknown)
    assert [status for status, _ in found] == [404, 404, 404, 404, 404, 422]
    assert "canary" not in (await browser.get(LIST)).text
    assert (await stranger.get(f"/knowledge/entries/{foreign}")).json()["version"] == 1


async def test_stored_markup_is_shown_as_text(browser: Browser, admin: Caller) -> None:
    parent = await admin.add(f"parent {SCRIPT}")
    hostile = await admin.add(
        f"content {SCRIPT} </textarea></pre>", title=SCRIPT, tags=[SCRIPT, 'a", "b'], external_id=SCRIPT,
        metadata={SCRIPT: SCRIPT}, parent_id=parent["id"],
    )  # fmt: skip
    await admin.add("child", title=SCRIPT, parent_id=hostile["id"], tags=[SCRIPT, 'a", "b'])
    path = f"{LIST}/{hostile['id']}"
    for address in (
        LIST,
        path,
        f"{path}/edit",
        f"{path}/delete",
        f"{LIST}?tag={SCRIPT}",
        f"{LIST}/new?parent_id={SCRIPT}",
    ):
        page = await browser.get(address)
        assert page.status == 200, address
        assert not page.all("main script, main img"), address
        assert "alert(1)" in page.answer.text, address
    form = fields(await browser.get(f"{path}/edit"))
    assert (form["title"], form["content"]) == (SCRIPT, f"content {SCRIPT} </textarea></pre>")
    wrong = await browser.post(f"{path}/edit", {**form, "confidence": SCRIPT, "metadata": SCRIPT})
    assert wrong.status == 422
    assert not wrong.all("main script, main img")
    assert (await browser.post(f"{path}/edit", form)).status == 303
    assert (await admin.get(f"/knowledge/entries/{hostile['id']}")).json() == hostile, "the form lost nothing"


async def test_only_a_page_of_the_console_changes_entries(browser: Browser, admin: Caller) -> None:
    entry = await admin.add("A fact")
    form = {"content": "Mine", "version": "1"}
    for headers in (
        {},
        {"Origin": "http://elsewhere.test"},
        {"Origin": ADDRESS, "Sec-Fetch-Site": "cross-site"},
    ):
        for path in (LIST, f"{LIST}/{entry['id']}/edit", f"{LIST}/{entry['id']}/delete"):
            assert (await browser.http.post(path, data=form, headers=headers)).status_code == 403, path
    assert (await admin.get(f"/knowledge/entries/{entry['id']}")).json() == entry
