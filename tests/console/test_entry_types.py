"""Pages name the types of entries in words."""

from __future__ import annotations

from typing import get_args

from app.console.words import NAMED
from app.contract.vocabulary import EntryType
from tests.console.browser import Browser
from tests.fixtures.http.callers import Caller


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
