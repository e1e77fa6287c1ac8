"""The pages of entries: read, written, changed and deleted by those who may, and shown as text."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

from tests.console.browser import ADDRESS, Browser, Page
from tests.console.conftest import SignIn
from tests.fixtures.http.callers import Caller
from tests.fixtures.providers.failing import FailingProvider

LIST = "/console/entries"
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'"


def fields(page: Page) -> dict[str, Any]:
    """What a form would send as it stands."""
    form = page.one("main form[method=post]")
    # A browser drops the first line feed of a text area, as the parser of these tests does not.
    areas = {area.get("name") for area in page.all("main textarea")}
    return {n: v.removeprefix("\n") if n in areas else v for n, v in form.form_values()}


def facts(page: Page) -> dict[str, str]:
    """What the lists of facts say."""
    return dict(zip(page.texts("dl.facts dt"), page.texts("dl.facts dd"), strict=True))


def entry_id(page: Page) -> str:
    """The id in the address that a form leads to."""
    assert page.status == 303, page.text
    return str(page.answer.headers["location"]).split("?")[0].rpartition("/")[2]


async def test_the_list_shows_the_newest_first_and_goes_on(browser: Browser, admin: Caller) -> None:
    await admin.post(
        "/knowledge/entries/bulk", {"entries": [{"content": f"Fact number {n:02}"} for n in range(27)]}
    )
    page = await browser.get(LIST)
    names = page.texts("tbody th a")
    assert names == [f"Fact number {n:02}" for n in range(26, 1, -1)]
    older = await browser.get(page.one("a[rel=next]").get("href"))
    assert older.texts("tbody th a") == ["Fact number 01", "Fact number 00"]
    assert not older.all("a[rel=next]")


async def test_the_list_is_filtered_by_type_tag_and_source(
    browser: Browser, admin: Caller, work: Any
) -> None:
    await admin.add("A lesson", entry_type="lesson", tags=["sea, deep"])
    await admin.add("A fact", tags=["land"])
    await admin.upload("a.txt", b"A chunk", "text/plain")
    await work()
    for condition, expected in (
        ({}, ["A chunk", "A fact", "A lesson"]),
        ({"entry_type": "lesson"}, ["A lesson"]),
        ({"tag": "sea, deep"}, ["A lesson"]),
        ({"source": "asset"}, ["A chunk"]),
        ({"source": "entry"}, ["A fact", "A lesson"]),
        ({"source": "entry", "tag": "land", "entry_type": "", "asset_id": ""}, ["A fact"]),
        ({"tag": "sea"}, []),
    ):
        page = await browser.get(LIST, condition)
        assert page.texts("tbody th > a") == expected, condition
    assert "No entry fits" in page.text
    shown = await browser.get(LIST, {"entry_type": "lesson", "source": "entry"})
    assert shown.one("#entry_type option[selected]").text == "lesson"
    assert shown.one("#source option[selected]").get("value") == "entry"
    for bad in ({"entry_type": "x"}, {"source": "x"}, {"asset_id": "x"}, {"cursor": "x"}, {"tag": "\x00"}):
        assert (await browser.get(LIST, bad)).status == 422, bad


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
    assert headings == [
        "Part of",
        "Made from",
        "Its parts",
        "Takes the place of",
        "Related, as agents see it",
    ]
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
    assert "searches leave it out" in replaced.text
    provider.down = True
    waiting = await admin.add("Waits for its vector")
    assert "pending" in (await browser.get(f"{LIST}/{waiting['id']}")).text
    assert "pending" in (await browser.get(LIST)).texts("tbody tr")[0]


async def test_an_entry_is_written_changed_and_deleted(browser: Browser) -> None:
    new = await browser.get(f"{LIST}/new")
    form = {
        **fields(new),
        "content": "First line\r\n\r\nThird line",
        "tags": 'sea, "deep, dark"',
        "title": "T",
    }
    written = await browser.post(LIST, form)
    entry = entry_id(written)
    page = await browser.get(written.answer.headers["location"])
    assert "The entry is stored." in page.text
    assert page.one("pre.text").text_content() == "First line\n\nThird line"
    assert page.texts("main a.tag") == ["sea", "deep, dark"]
    assert entry_id(await browser.post(LIST, form)) == entry, "the same text is the same entry"

    shown = fields(await browser.get(f"{LIST}/{entry}/edit"))
    assert shown["tags"] == 'sea, "deep, dark"'
    unchanged = await browser.post(f"{LIST}/{entry}/edit", shown)
    assert entry_id(unchanged) == entry
    assert fields(await browser.get(f"{LIST}/{entry}/edit"))["version"] == "1", (
        "a form sent as it was changes nothing"
    )

    changes = {
        "title": "",
        "confidence": "0.25",
        "expires_at": "2199-01-31T12:00:00Z",
        "metadata": '{"a": 1}',
    }
    assert (
        await browser.post(f"{LIST}/{entry}/edit", {**shown, **changes, "is_verified": "on"})
    ).status == 303
    now = facts(await browser.get(f"{LIST}/{entry}"))
    assert (now["Version"], now["Verified"], now["Confidence"]) == ("2", "yes", "0.25")
    assert now["Expires"] == "2199-01-31 12:00 UTC"

    question = await browser.get(f"{LIST}/{entry}/delete")
    assert (await browser.get(f"{LIST}/{entry}")).status == 200, "asking deletes nothing"
    gone = await browser.post(f"{LIST}/{entry}/delete", fields(question))
    assert (gone.status, gone.answer.headers["location"]) == (303, f"{LIST}?done=deleted")
    assert (await browser.get(f"{LIST}/{entry}")).status == 404


async def test_a_changed_text_has_its_language_detected_anew(browser: Browser, admin: Caller) -> None:
    entry = await admin.add(
        "The harbour closes at dusk, and the ships have to wait outside until the morning"
    )
    form = fields(await browser.get(f"{LIST}/{entry['id']}/edit"))
    assert form["language"] == "english"
    german = "Der Hafen schließt in der Dämmerung, und die Schiffe müssen bis zum Morgen draußen warten"
    await browser.post(f"{LIST}/{entry['id']}/edit", {**form, "content": german})
    assert (await admin.get(f"/knowledge/entries/{entry['id']}")).json()["language"] == "german"


async def test_a_form_changes_no_field_that_nobody_touched(browser: Browser, admin: Caller) -> None:
    entry = await admin.add(
        "line one\r\nline two\rline three",
        external_id=" padded ",
        language="german",
        tags=["  sp", "new\nline"],
        title="a\nb",
        roles=["qa", "dev"],
    )
    path = f"/knowledge/entries/{entry['id']}"
    form = await browser.get(f"{LIST}/{entry['id']}/edit")
    # A browser sends each new line as two characters, and none from fields of one line.
    areas = {area.get("name") for area in form.all("main textarea")}
    sent: dict[str, Any] = {
        n: re.sub(r"\r\n|\r|\n", "\r\n", v) if n in areas else re.sub(r"[\r\n]", "", v)
        for n, v in fields(form).items()
        if n != "roles"
    }
    sent["roles"] = ["dev", "qa"]
    assert entry_id(await browser.post(f"{LIST}/{entry['id']}/edit", sent)) == entry["id"]
    assert (await admin.get(path)).json() == entry
    await browser.post(f"{LIST}/{entry['id']}/edit", {**sent, "content": "The harbour closes at dusk"})
    now = (await admin.get(path)).json()
    assert (now["content"], now["version"]) == ("The harbour closes at dusk", 2)
    assert {n: now[n] for n in ("external_id", "language", "tags", "title", "roles")} == {
        n: entry[n] for n in ("external_id", "language", "tags", "title", "roles")
    }


async def test_a_stale_edit_is_refused_and_loses_nothing(browser: Browser, admin: Caller) -> None:
    entry = await admin.add("The first text", title="Mine")
    path = f"{LIST}/{entry['id']}"
    form = fields(await browser.get(f"{path}/edit"))
    question = fields(await browser.get(f"{path}/delete"))
    await admin.patch(f"/knowledge/entries/{entry['id']}", {"content": "The text of another"})

    refused = await browser.post(f"{path}/edit", {**form, "content": "My own text"})
    assert refused.status == 412
    assert "Nothing was saved" in refused.one("[role=alert]").text_content()
    assert "The text of another" in refused.one("[role=alert]").text_content()
    assert fields(refused)["content"] == "My own text"
    assert (await admin.get(f"/knowledge/entries/{entry['id']}")).json()["content"] == "The text of another"

    unasked = await browser.post(f"{path}/delete", question)
    assert unasked.status == 412
    assert "The text of another" in unasked.text
    without = {name: value for name, value in form.items() if name != "version"}
    assert (await browser.post(f"{path}/edit", without)).status == 422, (
        "nobody overwrites what they have not seen"
    )
    assert (await browser.post(f"{path}/delete")).status == 422

    assert (await browser.post(f"{path}/edit", fields(refused))).status == 303, "seen now, and meant"
    assert (await admin.get(f"/knowledge/entries/{entry['id']}")).json()["content"] == "My own text"


WRONG = [
    ("content", "", "is required"),
    ("content", "x\x00y", "no NUL"),
    ("title", "x" * 1001, "at most 1000 characters"),
    ("entry_type", "chunk", "must be fact, summary"),
    ("tags", "a" * 101, "1: must have at most 100 characters"),
    ("confidence", "much", "must be a number"),
    ("confidence", "nan", "finite"),
    ("confidence", "1.5", "must be at most 1"),
    ("roles", "boss", "must be pm, dev, qa or all"),
    ("parent_id", "x", "must be a UUID"),
    ("parent_id", str(uuid4()), "there is no entry with this id"),
    ("source_ids", f"{uuid4()}", "there is no entry with this id"),
    ("metadata", "[1]", "must be a JSON object"),
    ("metadata", "{", "must be a JSON object"),
    ("language", "klingon", "must be one of"),
    ("expires_at", "tomorrow", "must be a date and time"),
    ("expires_at", "2026-01-01T00:00:00", "with a time zone"),
    ("external_id", "x" * 513, "at most 512 characters"),
]
"""A field, what is written in it, and what is said of it."""


async def test_what_is_wrong_is_said_at_its_field(browser: Browser) -> None:
    form = {"content": "A text", "entry_type": "fact", "scope": "global", "confidence": "1", "roles": "all"}
    for field, value, message in WRONG:
        page = await browser.post(LIST, {**form, field: value})
        assert page.status == 422, field
        assert message in page.one(f"#field-{field}-error").text_content()
        assert [link.get("href") for link in page.all("[role=alert] a")] == [f"#field-{field}"]
        if field != "roles":
            assert page.one(f"#field-{field}").get("aria-invalid") == "true"
            assert f"field-{field}-error" in page.one(f"#field-{field}").get("aria-describedby").split()


async def test_a_chunk_keeps_the_text_of_its_document(browser: Browser, admin: Caller, work: Any) -> None:
    await admin.upload("a.txt", b"The harbour closes at dusk", "text/plain")
    await work()
    chunk = (await browser.get(LIST)).one("tbody th > a").get("href")
    page = await browser.get(f"{chunk}/edit")
    assert not page.all("[name=content], [name=title], [name=entry_type], [name=external_id]")
    sent = {**fields(page), "tags": "sea"}
    assert sent["metadata"] == "", "its place in the document is not the writer's"
    assert (await browser.post(f"{chunk}/edit", {**sent, "metadata": '{"a": 1}'})).status == 303
    metadata = (await admin.get(chunk.replace("/console", "/knowledge"))).json()["metadata"]
    assert metadata == {"a": 1, "char_start": 0, "char_end": 26}
    shown = await browser.get(chunk)
    assert shown.texts("main a.tag") == ["sea"]
    assert "chunk 1" in shown.text
    refused = await browser.post(f"{chunk}/delete", {"version": "2"})
    assert refused.status == 409
    assert "delete the asset instead" in refused.text


async def test_who_may_only_read_is_offered_no_change(sign_in: SignIn, reader: Caller, admin: Caller) -> None:
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


async def test_another_tenants_entry_is_like_none(browser: Browser, stranger: Caller) -> None:
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


async def test_whatever_is_stored_is_shown_as_text(browser: Browser, admin: Caller) -> None:
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
