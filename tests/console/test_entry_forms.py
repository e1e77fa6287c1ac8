"""The forms of entries: creation, changes and deletion, with each refusal shown at its field."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

from tests.console.browser import Browser
from tests.console.entry_pages import LIST, entry_id, facts, fields
from tests.fixtures.http.callers import Caller


async def test_an_entry_is_created_changed_and_deleted(browser: Browser) -> None:
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
    assert "The entry has been stored." in page.text
    assert page.one("pre.text").text_content() == "First line\n\nThird line"
    assert page.texts("main a.tag") == ["sea", "deep, dark"]
    assert entry_id(await browser.post(LIST, form)) == entry, "the same text is the same entry"

    shown = fields(await browser.get(f"{LIST}/{entry}/edit"))
    assert shown["tags"] == 'sea, "deep, dark"'
    unchanged = await browser.post(f"{LIST}/{entry}/edit", shown)
    assert entry_id(unchanged) == entry
    assert fields(await browser.get(f"{LIST}/{entry}/edit"))["version"] == "1", "a form sent as it was changes nothing"

    changes = {
        "title": "",
        "confidence": "0.25",
        "expires_at": "2199-01-31T12:00:00Z",
        "metadata": '{"a": 1}',
    }
    assert (await browser.post(f"{LIST}/{entry}/edit", {**shown, **changes, "is_verified": "on"})).status == 303
    now = facts(await browser.get(f"{LIST}/{entry}"))
    assert (now["Version"], now["Verified"], now["Confidence"]) == ("2 (former versions)", "yes", "0.25")
    assert now["Expires"] == "2199-01-31 12:00 UTC"

    question = await browser.get(f"{LIST}/{entry}/delete")
    assert (await browser.get(f"{LIST}/{entry}")).status == 200, "the confirmation deletes nothing"
    gone = await browser.post(f"{LIST}/{entry}/delete", fields(question))
    assert (gone.status, gone.answer.headers["location"]) == (303, f"{LIST}?done=deleted")
    assert (await browser.get(f"{LIST}/{entry}")).status == 404


async def test_a_changed_text_has_its_language_detected_again(browser: Browser, admin: Caller) -> None:
    entry = await admin.add("The harbour closes at dusk, and the ships have to wait outside until the morning")
    form = fields(await browser.get(f"{LIST}/{entry['id']}/edit"))
    assert form["language"] == "english"
    german = "Der Hafen schließt in der Dämmerung, und die Schiffe müssen bis zum Morgen draußen warten"
    await browser.post(f"{LIST}/{entry['id']}/edit", {**form, "content": german})
    assert (await admin.get(f"/knowledge/entries/{entry['id']}")).json()["language"] == "german"


async def test_a_form_changes_only_edited_fields(browser: Browser, admin: Caller) -> None:
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
    # A browser sends each line feed as two characters, and none from single-line fields.
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
    assert (await browser.post(f"{path}/edit", without)).status == 422, "an unseen change is not overwritten"
    assert (await browser.post(f"{path}/delete")).status == 422

    assert (await browser.post(f"{path}/edit", fields(refused))).status == 303, "the second save overwrites"
    assert (await admin.get(f"/knowledge/entries/{entry['id']}")).json()["content"] == "My own text"


WRONG = [
    ("content", "", "is required"),
    ("content", "x\x00y", "no NUL"),
    ("roles", "boss", "must be pm, dev, qa or all"),
    ("parent_id", str(uuid4()), "there is no entry with this id"),
    ("source_ids", f"{uuid4()}", "there is no entry with this id"),
]
"""A field, its value, and the error shown for it."""


async def test_a_refused_value_is_explained_at_its_field(browser: Browser) -> None:
    form = {"content": "A text", "entry_type": "fact", "scope": "global", "confidence": "1", "roles": "all"}
    for field, value, message in WRONG:
        page = await browser.post(LIST, {**form, field: value})
        assert page.status == 422, field
        assert message in page.one(f"#field-{field}-error").text_content()
        assert [link.get("href") for link in page.all("[role=alert] a")] == [f"#field-{field}"]
        if field != "roles":
            assert page.one(f"#field-{field}").get("aria-invalid") == "true"
            assert f"field-{field}-error" in page.one(f"#field-{field}").get("aria-describedby").split()


async def test_other_entries_are_named_by_id_or_address(browser: Browser, admin: Caller) -> None:
    harbour, lock, gate = [(await admin.add(text))["id"] for text in ("The harbour", "The lock", "The gate")]
    form = {
        **fields(await browser.get(f"{LIST}/new")),
        "content": "The bell",
        "parent_id": f" http://kb.example/console/entries/{harbour}?done=created ",
        "superseded_by_id": f"/console/entries/{lock}",
        "source_ids": f"{gate}\nhttps://kb.example/console/entries/{lock}#content-heading",
    }
    entry = entry_id(await browser.post(LIST, form))
    stored = (await admin.get(f"/knowledge/entries/{entry}")).json()
    assert (stored["parent_id"], stored["superseded_by_id"]) == (harbour, lock)
    assert stored["source_ids"] == [gate, lock]
    for other in (
        "http://kb.example/console/assets/" + harbour,
        "http://kb.example/console/entries/" + "x" * 36,
    ):
        refused = await browser.post(LIST, {**form, "content": "Another", "parent_id": other})
        assert refused.status == 422
        assert refused.one("#field-parent_id").get("value") == other


async def test_a_chunk_keeps_the_text_of_its_document(browser: Browser, admin: Caller, work: Any) -> None:
    await admin.upload("a.txt", b"The harbour closes at dusk", "text/plain")
    await work()
    chunk = (await browser.get(LIST, {"source": "asset"})).one("tbody th > a").get("href")
    page = await browser.get(f"{chunk}/edit")
    assert not page.all("[name=content], [name=title], [name=entry_type], [name=external_id]")
    sent = {**fields(page), "tags": "sea"}
    assert sent["metadata"] == "", "the form does not show its position in the document"
    assert (await browser.post(f"{chunk}/edit", {**sent, "metadata": '{"a": 1}'})).status == 303
    metadata = (await admin.get(chunk.replace("/console", "/knowledge"))).json()["metadata"]
    assert metadata == {"a": 1, "char_start": 0, "char_end": 26}
    shown = await browser.get(chunk)
    assert shown.texts("main a.tag") == ["sea"]
    assert "passage 1" in shown.text
    refused = await browser.post(f"{chunk}/delete", {"version": "2"})
    assert refused.status == 409
    assert "delete the asset instead" in refused.text
