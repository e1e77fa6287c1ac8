"""The page of the audit trail, only for admins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args
from urllib.parse import parse_qs, urlsplit

import pytest

from app.console.words import NAMED
from app.contract.administration import AuditAction
from tests.console.browser import Browser, Page
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
