"""Dates and times in forms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from app.console.words import picker_of, read_moment, write_moment
from tests.console.browser import Browser
from tests.console.entry_pages import LIST, fields
from tests.fixtures.http.callers import Caller

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
    sent = await browser.post(LIST, {**form, "entry_type": "fact", "scope": "global"})
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
