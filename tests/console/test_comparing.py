"""Two settings compared on one query, side by side."""

from __future__ import annotations

from tests.console.browser import Browser
from tests.console.conftest import SignIn
from tests.fixtures.http.callers import Caller


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
    asked = {
        "query": "bell",
        "a.mode": "keyword",
        "b.mode": "semantic",
        "b.similarity_threshold": "0",
        "limit": "5",
    }
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
