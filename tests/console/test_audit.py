"""The audit trail, versions and their comparison."""

from datetime import UTC, datetime, timedelta, timezone
from typing import get_args
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest

from app.console.words import NAMED, picker_of, read_moment, write_moment
from app.contract.administration import AuditAction
from tests.console.browser import Browser, Page
from tests.console.conftest import SignIn
from tests.console.contents import ENTRIES, fields, upload
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller

AUDIT = "/console/audit"
SCRIPT = "<script>alert(1)</script>"


def actions(page: Page) -> list[str]:
    """The actions of the page's rows."""
    refused = [" refused" * len(row.cssselect(".badge.bad")) for row in page.all("tbody th")]
    return [row.get("title") + end for row, end in zip(page.all("tbody th span[title]"), refused, strict=True)]


async def test_the_page_shows_the_same_rows_as_the_api(browser: Browser, admin: Caller) -> None:
    entry = await admin.add("A fact")
    await admin.patch("/admin/settings", {"fusion": "rrf"})
    await admin.delete("/knowledge/entries/01890000-0000-7000-8000-000000000000")
    listed = (await admin.get("/admin/audit")).json()["items"]
    page = await browser.get(AUDIT)
    assert page.status == 200
    shown = [text.removesuffix(" refused") for text in actions(page)]
    # The API's own read came between both.
    assert [name for name in shown if name != "audit.read"] == [
        row["action"] for row in listed if row["action"] != "audit.read"
    ]
    assert "entry.delete refused" in actions(page)
    assert page.one(f'a[href="/console/entries/{entry["id"]}"]').get("title") == entry["id"]


def test_every_action_has_a_name() -> None:
    assert set(NAMED["values"]["action"]) == set(get_args(AuditAction))
    assert len(set(NAMED["values"]["action"].values())) == len(NAMED["values"]["action"])


async def test_actions_are_named_in_words(browser: Browser, admin: Caller) -> None:
    await admin.add("A fact")
    page = await browser.get(AUDIT, {"action": "entry.write"})
    assert page.texts("tbody th") == ["entry stored"]
    assert page.texts("#field-action option[selected]") == ["entry stored"]


async def test_the_filters_are_those_of_the_api(browser: Browser, admin: Caller) -> None:
    await admin.add("A fact")
    await admin.delete("/knowledge/entries/01890000-0000-7000-8000-000000000000")
    refused = await browser.get(AUDIT, {"outcome": "refused", "action": "entry.delete"})
    assert actions(refused) == ["entry.delete refused"]
    assert actions(await browser.get(AUDIT, {"actor": "another caller"})) == []
    hour = timedelta(hours=1)
    now = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    later = (now + hour).isoformat(timespec="minutes")
    assert actions(await browser.get(AUDIT, {"after": later})) == []
    assert "entry.write" in actions(await browser.get(AUDIT, {"before": later}))
    answer = await admin.get("/admin/audit", params={"outcome": "refused", "action": "entry.delete"})
    assert [row["action"] for row in answer.json()["items"]] == ["entry.delete"]
    answer = await admin.get("/admin/audit", params={"after": f"{later}:00Z"})
    assert answer.json()["items"] == []


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"action": "entry"}, "action"),
        ({"after": "soon"}, "after"),
        ({"after": "2026-02-01T00:00", "before": "2026-01-01T00:00"}, "before"),
        ({"actor": "a\x00b"}, "actor"),
    ],
)
async def test_a_bad_filter_is_refused_at_its_field(browser: Browser, given: dict[str, str], field: str) -> None:
    page = await browser.get(AUDIT, given)
    assert page.status == 422
    assert page.one("[aria-invalid=true]").get("name") == field


async def test_pages_keep_the_filter(browser: Browser, admin: Caller) -> None:
    for number in range(27):
        await admin.add(f"Fact {number}")
    first = await browser.get(AUDIT, {"action": "entry.write"})
    assert len(actions(first)) == 25
    address = first.one("a[rel=next]").get("href")
    assert parse_qs(urlsplit(address).query)["action"] == ["entry.write"]
    assert len(actions(await browser.get(address))) == 2


async def test_texts_of_callers_are_shown_as_text(browser: Browser) -> None:
    page = await browser.get(AUDIT, {"actor": SCRIPT})
    assert page.one("#field-actor").get("value") == SCRIPT


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


async def test_each_side_has_its_own_settings_and_changes_of_rank_are_shown(browser: Browser, admin: Caller) -> None:
    await admin.add("A lesson about the bell, the bell and the bell", entry_type="temp_note", title="Note")
    await admin.add("The bell in a decision of many more words than the other", entry_type="decision", title="Decision")
    await admin.add("A decision without the word", entry_type="decision", title="Other", tags=["x"])
    asked = {"query": "bell", "a.mode": "keyword", "b.mode": "keyword", "b.boost": "type"}
    page = await browser.get("/console/compare", asked)
    assert page.status == 200
    rows = [
        [" ".join(cell.text_content().split()) for cell in row.cssselect("td, th")[:4]]
        for row in page.all("section > .scroll table.list tbody tr")
    ]
    assert rows == [["1", "2", "▼ 1", "Note temporary note"], ["2", "1", "▲ 1", "Decision decision"]]
    assert page.one("h2[data-announce]").text_content().startswith("2 hits on both sides, 2 of them moved")
    assert len(page.all("svg.ranks g.lane path")) == 2


async def test_the_page_is_a_section_of_the_administration_only_for_admins(
    browser: Browser, sign_in: SignIn, reader: Caller
) -> None:
    assert (await browser.get("/console/compare")).texts(".sections [aria-current]") == ["Compare"]
    page = await sign_in(reader).get("/console/compare")
    assert page.one("h1").text_content() == "Compare two settings"
    assert not page.all(".sections")
    found = await sign_in(reader).search("bell")
    assert found.all("#ranking a[href^='/console/compare?']")


async def test_a_hit_on_one_side_only_is_marked(browser: Browser, admin: Caller) -> None:
    await admin.add("The bell")
    await admin.add("The boat")
    asked = {"query": "bell", "a.mode": "keyword", "b.mode": "semantic", "b.similarity_threshold": "0", "limit": "5"}
    page = await browser.get("/console/compare", asked)
    moves = set(page.texts("td.moves"))
    assert "1 hits on both sides" in page.text or "only in A" in moves
    assert moves <= {"same", "only in A", "only in B", "▼ 1", "▲ 1"}


async def test_a_refusal_is_shown_on_its_side(browser: Browser) -> None:
    page = await browser.get("/console/compare", {"query": "bell", "a.rrf_k": "60", "b.rrf_k": "0"})
    assert page.status == 422
    (field,) = page.all("[aria-invalid=true]")
    assert field.get("name") == "b.rrf_k"
    shared = await browser.get("/console/compare", {"query": "bell", "limit": "0", "b.fusion": "score"})
    assert [e.get("name") for e in shared.all("[aria-invalid=true]")] == ["limit"]


async def test_a_comparison_starts_with_both_fusions(browser: Browser) -> None:
    page = await browser.get("/console/compare")
    assert page.status == 200
    chosen = {s.get("name"): s.value for s in page.all("select") if s.get("name", "").endswith("fusion")}
    assert chosen == {"a.fusion": "score", "b.fusion": "rrf"}
    assert not page.all("svg.ranks")


NOON = datetime(2027, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "text", "kind"),
    [
        (NOON, "2027-01-31T12:00", "datetime-local"),
        (NOON.astimezone(timezone(timedelta(hours=2))), "2027-01-31T12:00", "datetime-local"),
        (NOON.replace(second=7), "2027-01-31T12:00:07", "datetime-local"),
        (NOON.replace(year=999), "0999-01-31T12:00", "datetime-local"),
        (NOON.replace(microsecond=5), "2027-01-31T12:00:00.000005+00:00", "text"),
    ],
)
def test_a_moment_round_trips_through_a_field(moment: datetime, text: str, kind: str) -> None:
    assert write_moment(moment) == text
    assert datetime.fromisoformat(read_moment(text)) == moment
    assert picker_of(text, "datetime-local") == kind


def test_a_day_begins_at_midnight_in_utc() -> None:
    assert read_moment(" 2027-01-31 ") == "2027-01-31T00:00:00Z"
    assert picker_of("2027-01-31", "date") == picker_of("", "date") == "date"
    assert picker_of("2027-01-31T12:00:00Z", "date") == "text"
    assert read_moment("tomorrow") == "tomorrow"


async def test_an_entry_expires_when_the_picker_says(browser: Browser, admin: Caller) -> None:
    form = {"content": "A tide", "expires_at": "2199-01-31T12:00", "confidence": "1", "roles": "all"}
    sent = await browser.post(ENTRIES, {**form, "entry_type": "fact", "scope": "global"})
    path = sent.answer.headers["location"].split("?")[0]
    stored = (await admin.get(path.replace("/console", "/knowledge"))).json()
    assert datetime.fromisoformat(stored["expires_at"]) == datetime(2199, 1, 31, 12, tzinfo=UTC)
    page = await browser.get(f"{path}/edit")
    field = page.one("#field-expires_at")
    assert (field.get("type"), field.get("value")) == ("datetime-local", "2199-01-31T12:00")
    assert (await browser.post(f"{path}/edit", fields(page))).status == 303
    unchanged = (await admin.get(path.replace("/console", "/knowledge"))).json()
    assert unchanged["version"] == stored["version"]


async def test_a_search_begins_at_a_day(browser: Browser, admin: Caller) -> None:
    await admin.add("The bell")
    today = await browser.search("bell", created_after="2020-01-31")
    assert len(today.all(".hit")) == 1
    field = today.one("#field-created_after")
    assert (field.get("type"), field.get("value")) == ("date", "2020-01-31")
    assert not (await browser.search("bell", created_before="2020-01-31")).all(".hit")
    exact = await browser.search("bell", created_after="2020-01-31T12:00:00Z")
    assert exact.one("#field-created_after").get("type") == "text"
    refused = await browser.get("/console", {"query": "bell", "created_after": "soon"})
    assert refused.one("#field-created_after").get("aria-invalid") == "true"
