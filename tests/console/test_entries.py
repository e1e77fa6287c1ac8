"""Pages of entries."""

import json
import re
from typing import Any, get_args
from uuid import uuid4

from app.console.words import NAMED
from app.contract.search import SearchQuery
from app.contract.vocabulary import EntryType
from tests.console.browser import ADDRESS, Browser
from tests.console.conftest import SignIn
from tests.console.contents import ENTRIES, entry_id, facts, fields
from tests.fixtures.http.callers import Caller
from tests.fixtures.providers.failing import FailingProvider

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'"


async def test_the_list_shows_the_newest_first_and_continues(browser: Browser, admin: Caller) -> None:
    await admin.post("/knowledge/entries/bulk", {"entries": [{"content": f"Fact number {n:02}"} for n in range(27)]})
    page = await browser.get(ENTRIES)
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
        page = await browser.get(ENTRIES, condition)
        assert page.texts("tbody th > a") == expected, condition
    assert "No matching entries" in page.text
    shown = await browser.get(ENTRIES, {"entry_type": "lesson", "source": "entry"})
    assert shown.one("#entry_type option[selected]").text == "lesson"
    assert shown.one("#source option[selected]").get("value") == "entry"
    for bad in ({"entry_type": "x"}, {"source": "x"}, {"asset_id": "x"}, {"cursor": "x"}, {"tag": "\x00"}):
        assert (await browser.get(ENTRIES, bad)).status == 422, bad


async def test_the_list_shows_texts_as_they_read(browser: Browser, admin: Caller, work: Any) -> None:
    await admin.upload("a.md", b"# Boats\n\n## At night\n\nThey **moor** at the `quay`.", "text/markdown")
    await work()
    page = await browser.get(ENTRIES, {"source": "any"})
    assert page.texts("tbody th .faint")[0] == "They moor at the quay."


async def test_the_list_marks_only_entries_whose_vector_is_pending(
    browser: Browser, admin: Caller, provider: FailingProvider
) -> None:
    await admin.add("Ready")
    provider.down = True
    await admin.add("Waiting")
    rows = dict(zip(*map((await browser.get(ENTRIES)).texts, ("tbody th", "td[data-label=Type]")), strict=True))
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
    page = await browser.get(f"{ENTRIES}/{entry['id']}")
    assert page.answer.headers["etag"] == '"1"'
    assert page.texts("h1") == ["Bell"]
    assert page.one("pre.text").text_content() == "word " * 2000
    headings = page.texts("section[aria-labelledby=around-heading] h3")
    assert headings == ["Part of", "Parts", "Derived from"], "each related entry once"
    links = [a.get("href") for a in page.all("section[aria-labelledby=around-heading] li a")]
    assert len(links) == len(set(links)) == 3
    assert f"{provider.model.provider}/{provider.model.name}" in page.text
    shown = facts(page)
    expected = {"External id": "bell-1", "Confidence": "0.5", "Dimensions": "16", "State": "ready", "Version": "1"}
    assert {name: shown[name] for name in expected} == expected
    assert '"b": 1' in shown["Metadata"]
    assert len(page.all("ol.passages li")) > 1
    assert page.texts("ol.passages li")[0].startswith("Bell word word")
    replaced = await browser.get(f"{ENTRIES}/{old['id']}")
    assert "searches skip this entry" in replaced.text
    provider.down = True
    waiting = await admin.add("Waits for its vector")
    assert "pending" in (await browser.get(f"{ENTRIES}/{waiting['id']}")).text
    assert "pending" in (await browser.get(ENTRIES)).texts("tbody tr")[0]


async def test_a_reader_is_offered_no_change(sign_in: SignIn, reader: Caller, admin: Caller) -> None:
    browser, entry = sign_in(reader), await admin.add("A fact")
    path = f"{ENTRIES}/{entry['id']}"
    for page in (await browser.get(ENTRIES), await browser.get(path)):
        assert page.status == 200
        assert not page.all("main a[href*=edit], main a[href*=delete], main a[href*=new]")
    for wrong in (f"{ENTRIES}/new", f"{path}/edit", f"{path}/delete"):
        refused = await browser.get(wrong)
        assert (refused.status, len(refused.all("[role=alert]"))) == (403, 1), wrong
    for wrong in (ENTRIES, f"{path}/edit", f"{path}/delete"):
        assert (await browser.post(wrong, {"content": "Mine", "version": "1"})).status == 403, wrong
    assert (await admin.get(f"/knowledge/entries/{entry['id']}")).json() == entry


async def test_another_tenants_entry_is_answered_like_a_missing_one(browser: Browser, stranger: Caller) -> None:
    foreign, unknown = (await stranger.add("Foreign canary"))["id"], str(uuid4())

    async def answers(entry: str) -> list[tuple[int, str]]:
        pages = [await browser.get(f"{ENTRIES}/{entry}{tail}") for tail in ("", "/edit", "/delete")]
        form = {
            "content": "Mine",
            "version": "1",
            "roles": "all",
            "confidence": "1",
            "scope": "global",
            "entry_type": "fact",
        }
        pages += [await browser.post(f"{ENTRIES}/{entry}{tail}", form) for tail in ("/edit", "/delete")]
        pages.append(await browser.post(ENTRIES, {**form, "parent_id": entry}))
        return [
            (p.status, " ".join(p.texts("h1") + [alert.split(" · request")[0] for alert in p.texts("[role=alert]")]))
            for p in pages
        ]

    found = await answers(foreign)
    assert found == await answers(unknown)
    assert [status for status, _ in found] == [404, 404, 404, 404, 404, 422]
    assert "canary" not in (await browser.get(ENTRIES)).text
    assert (await stranger.get(f"/knowledge/entries/{foreign}")).json()["version"] == 1


async def test_stored_markup_is_shown_as_text(browser: Browser, admin: Caller) -> None:
    parent = await admin.add(f"parent {SCRIPT}")
    hostile = await admin.add(
        f"content {SCRIPT} </textarea></pre>", title=SCRIPT, tags=[SCRIPT, 'a", "b'], external_id=SCRIPT,
        metadata={SCRIPT: SCRIPT}, parent_id=parent["id"],
    )  # fmt: skip
    await admin.add("child", title=SCRIPT, parent_id=hostile["id"], tags=[SCRIPT, 'a", "b'])
    path = f"{ENTRIES}/{hostile['id']}"
    for address in (
        ENTRIES,
        path,
        f"{path}/edit",
        f"{path}/delete",
        f"{ENTRIES}?tag={SCRIPT}",
        f"{ENTRIES}/new?parent_id={SCRIPT}",
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
    for headers in ({}, {"Origin": "http://elsewhere.test"}, {"Origin": ADDRESS, "Sec-Fetch-Site": "cross-site"}):
        for path in (ENTRIES, f"{ENTRIES}/{entry['id']}/edit", f"{ENTRIES}/{entry['id']}/delete"):
            assert (await browser.http.post(path, data=form, headers=headers)).status_code == 403, path
    assert (await admin.get(f"/knowledge/entries/{entry['id']}")).json() == entry


async def test_an_entry_is_created_changed_and_deleted(browser: Browser) -> None:
    new = await browser.get(f"{ENTRIES}/new")
    form = {**fields(new), "content": "First line\r\n\r\nThird line", "tags": 'sea, "deep, dark"', "title": "T"}
    written = await browser.post(ENTRIES, form)
    entry = entry_id(written)
    page = await browser.get(written.answer.headers["location"])
    assert "The entry has been stored." in page.text
    assert page.one("pre.text").text_content() == "First line\n\nThird line"
    assert page.texts("main a.tag") == ["sea", "deep, dark"]
    assert entry_id(await browser.post(ENTRIES, form)) == entry, "the same text is the same entry"

    shown = fields(await browser.get(f"{ENTRIES}/{entry}/edit"))
    assert shown["tags"] == 'sea, "deep, dark"'
    unchanged = await browser.post(f"{ENTRIES}/{entry}/edit", shown)
    assert entry_id(unchanged) == entry
    assert fields(await browser.get(f"{ENTRIES}/{entry}/edit"))["version"] == "1", (
        "a form sent as it was changes nothing"
    )

    changes = {"title": "", "confidence": "0.25", "expires_at": "2199-01-31T12:00:00Z", "metadata": '{"a": 1}'}
    assert (await browser.post(f"{ENTRIES}/{entry}/edit", {**shown, **changes, "is_verified": "on"})).status == 303
    now = facts(await browser.get(f"{ENTRIES}/{entry}"))
    assert (now["Version"], now["Verified"], now["Confidence"]) == ("2 (former versions)", "yes", "0.25")
    assert now["Expires"] == "2199-01-31 12:00 UTC"

    question = await browser.get(f"{ENTRIES}/{entry}/delete")
    assert (await browser.get(f"{ENTRIES}/{entry}")).status == 200, "the confirmation deletes nothing"
    gone = await browser.post(f"{ENTRIES}/{entry}/delete", fields(question))
    assert (gone.status, gone.answer.headers["location"]) == (303, f"{ENTRIES}?done=deleted")
    assert (await browser.get(f"{ENTRIES}/{entry}")).status == 404


async def test_a_changed_text_has_its_language_detected_again(browser: Browser, admin: Caller) -> None:
    entry = await admin.add("The harbour closes at dusk, and the ships have to wait outside until the morning")
    form = fields(await browser.get(f"{ENTRIES}/{entry['id']}/edit"))
    assert form["language"] == "english"
    german = "Der Hafen schließt in der Dämmerung, und die Schiffe müssen bis zum Morgen draußen warten"
    await browser.post(f"{ENTRIES}/{entry['id']}/edit", {**form, "content": german})
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
    form = await browser.get(f"{ENTRIES}/{entry['id']}/edit")
    # A browser sends each line feed as two characters, and none from single-line fields.
    areas = {area.get("name") for area in form.all("main textarea")}
    sent: dict[str, Any] = {
        n: re.sub(r"\r\n|\r|\n", "\r\n", v) if n in areas else re.sub(r"[\r\n]", "", v)
        for n, v in fields(form).items()
        if n != "roles"
    }
    sent["roles"] = ["dev", "qa"]
    assert entry_id(await browser.post(f"{ENTRIES}/{entry['id']}/edit", sent)) == entry["id"]
    assert (await admin.get(path)).json() == entry
    await browser.post(f"{ENTRIES}/{entry['id']}/edit", {**sent, "content": "The harbour closes at dusk"})
    now = (await admin.get(path)).json()
    assert (now["content"], now["version"]) == ("The harbour closes at dusk", 2)
    assert {n: now[n] for n in ("external_id", "language", "tags", "title", "roles")} == {
        n: entry[n] for n in ("external_id", "language", "tags", "title", "roles")
    }


async def test_a_stale_edit_is_refused_and_loses_nothing(browser: Browser, admin: Caller) -> None:
    entry = await admin.add("The first text", title="Mine")
    path = f"{ENTRIES}/{entry['id']}"
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
        page = await browser.post(ENTRIES, {**form, field: value})
        assert page.status == 422, field
        assert message in page.one(f"#field-{field}-error").text_content()
        assert [link.get("href") for link in page.all("[role=alert] a")] == [f"#field-{field}"]
        if field != "roles":
            assert page.one(f"#field-{field}").get("aria-invalid") == "true"
            assert f"field-{field}-error" in page.one(f"#field-{field}").get("aria-describedby").split()


async def test_other_entries_are_named_by_id_or_address(browser: Browser, admin: Caller) -> None:
    harbour, lock, gate = [(await admin.add(text))["id"] for text in ("The harbour", "The lock", "The gate")]
    form = {
        **fields(await browser.get(f"{ENTRIES}/new")),
        "content": "The bell",
        "parent_id": f" http://kb.example/console/entries/{harbour}?done=created ",
        "superseded_by_id": f"/console/entries/{lock}",
        "source_ids": f"{gate}\nhttps://kb.example/console/entries/{lock}#content-heading",
    }
    entry = entry_id(await browser.post(ENTRIES, form))
    stored = (await admin.get(f"/knowledge/entries/{entry}")).json()
    assert (stored["parent_id"], stored["superseded_by_id"]) == (harbour, lock)
    assert stored["source_ids"] == [gate, lock]
    for other in ("http://kb.example/console/assets/" + harbour, "http://kb.example/console/entries/" + "x" * 36):
        refused = await browser.post(ENTRIES, {**form, "content": "Another", "parent_id": other})
        assert refused.status == 422
        assert refused.one("#field-parent_id").get("value") == other


async def test_a_chunk_keeps_the_text_of_its_document(browser: Browser, admin: Caller, work: Any) -> None:
    await admin.upload("a.txt", b"The harbour closes at dusk", "text/plain")
    await work()
    chunk = (await browser.get(ENTRIES, {"source": "asset"})).one("tbody th > a").get("href")
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


def test_every_type_has_a_name() -> None:
    assert set(NAMED["values"]["entry_type"]) == set(get_args(EntryType))
    assert not [name for name in NAMED["values"]["entry_type"].values() if "_" in name]


async def test_every_page_has_the_same_name_for_a_type(browser: Browser, admin: Caller) -> None:
    first = await admin.add("The lift is broken", entry_type="temp_note", title="Lift", tags=["a", "b"])
    await admin.add("The lift works", title="Lift again", tags=["a", "b"])
    await admin.post("/knowledge/search", {"query": "lift"})
    for path in (
        *("/console", "/console?query=lift", "/console/entries", f"/console/entries/{first['id']}"),
        *("/console/entries/new", "/console/compare?query=lift", "/console/health", "/console/settings"),
    ):
        page = await browser.get(path)
        assert "temporary note" in page.text, path
        assert "temp_note" not in page.text, path
        assert "temp note" not in page.text, path


async def test_why_not_names_what_excluded_an_entry(browser: Browser, admin: Caller) -> None:
    entry = await admin.add("The boat", tags=["sea"], external_id="BOAT-1")
    await admin.add("The bell")
    asked = {"query": "bell", "mode": "keyword"}
    reasons = await browser.get("/console/why-not", {**asked, "entry_id": entry["id"]})
    assert "shares no word with the query" in reasons.one("#why-not-answer").text_content()
    address = f"http://kb.example/console/entries/{entry['id']}"
    named = await browser.get("/console/why-not", {**asked, "entry_id": address})
    assert "shares no word with the query" in named.one("#why-not-answer").text_content()
    filtered = await browser.get("/console/why-not", {**asked, "tags": "air", "entry_id": entry["id"]})
    assert "tags does not match" in filtered.one("#why-not-answer").text_content()
    there = await browser.get("/console/why-not", {"query": "boat", "mode": "keyword", "entry_id": entry["id"]})
    assert "at rank 1" in there.one("#why-not-answer").text_content()
    by_name = await browser.get("/console/why-not", {**asked, "entry_id": "BOAT-1"})
    assert "shares no word with the query" in by_name.one("#why-not-answer").text_content()
    none = await browser.get("/console/why-not", {**asked, "entry_id": str(uuid4())})
    assert "there is no entry with this id" in none.one("#why-not-answer").text_content()
    for wrong in ({"entry_id": "x"}, {"entry_id": "a\x00"}, {"entry_id": str(uuid4()), "limit": "99"}):
        assert (await browser.get("/console/why-not", {**asked, **wrong})).status == 422
    unasked = await browser.get("/console/why-not", asked)
    assert unasked.status == 200
    assert unasked.one("#why-not-answer").text_content().strip() == "Name the entry that the search should find."


async def test_the_search_page_asks_why_not_for_the_same_search(browser: Browser, admin: Caller) -> None:
    await admin.add("The bell", tags=["sea"])
    page = await browser.search("bell", tags="sea", explain="true", boost="type")
    hidden = page.all("form[action='/console/why-not'] input[type=hidden]")
    assert {e.get("name"): e.get("value") for e in hidden} == {"query": "bell", "tags": "sea", "boost": "type"}
    saved = page.one("form[action='/console/saved-searches'] input[name=request]").get("value")
    assert SearchQuery(**json.loads(saved)).tags == ("sea",)


async def test_related_entries_are_shown_by_relationship(browser: Browser, admin: Caller) -> None:
    parent = await admin.add("The harbour", title="Harbour")
    entry = await admin.add("The bell", parent_id=parent["id"], tags=["a", "b"])
    await admin.add("The boat", tags=["a", "b"])
    page = await browser.get(f"/console/related/{entry['id']}")
    assert page.texts("#related h2") == ["Part of", "Same tags"]
    assert page.texts("#related li a") == ["Harbour", "The boat"]
    assert "2 shared tags" in page.text
    assert (await browser.get("/console/related/no-id")).status == 422
    lonely = await browser.get(f"/console/related/{uuid4()}")
    assert (lonely.status, lonely.one("#related").text_content().strip()) == (200, "There are no related entries.")
