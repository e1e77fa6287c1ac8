"""The settings page: a change is previewed on recent queries, and saved in a second step."""

from __future__ import annotations

from typing import Any

import pytest

from app.composition.services import Services
from app.console.pages.settings import form_of, read_changes
from app.contract.settings import DEFAULT_SETTINGS, SettingsPatch
from app.knowledge.tenants.directory import read_settings
from tests.console.browser import Browser, Page, all_fields
from tests.fixtures.http.callers import Caller
from tests.fixtures.providers.failing import FailingProvider

SETTINGS = "/console/settings"
PREVIEW = "/console/settings/preview"


def fill(page: Page, **changes: str) -> dict[str, Any]:
    """What a browser sends for the form of the page after these changes; an empty text clears a box."""
    form = all_fields(page.one(f'form[action="{PREVIEW}"]'))
    return {name: texts[-1] for name, texts in form.items()} | changes


async def find_differently(admin: Caller, provider: FailingProvider) -> None:
    """Two entries of which each leg prefers another."""
    provider.vectors["pier"] = provider.direction(1.0)
    provider.vectors["Near"] = provider.direction(0.6, 0.8)
    await admin.add("Near")
    await admin.add("The pier is long")


async def test_a_change_is_previewed_on_recent_queries_and_saved_by_a_second_step(
    browser: Browser, admin: Caller, provider: FailingProvider, api_services: Services
) -> None:
    await find_differently(admin, provider)
    await admin.patch("/admin/settings", {"keep_query_text": True, "fusion": "rrf"})
    await admin.search("pier", similarity_threshold=0.5)
    await api_services.journal.flush()
    before = (await admin.get("/admin/settings")).json()
    page = await browser.get(SETTINGS)
    sent = fill(page, **{"weights.semantic": "0.1", "weights.keyword": "0.9", "similarity_threshold": "0.5"})
    preview = await browser.post(PREVIEW, sent)
    assert preview.status == 200, preview.text
    assert preview.texts(".changes dt") == ["Semantic weight", "Keyword weight", "Minimum similarity"]
    assert "1 of 1 queries change; 2 results move, come or go." in preview.text
    rows = [
        [" ".join(cell.text_content().split()) for cell in row.cssselect("td, th")]
        for row in preview.all(".preview tbody tr")
    ]
    assert rows == [["1", "2", "▼ 1", "Near"], ["2", "1", "▲ 1", "The pier is long"]]
    assert (await admin.get("/admin/settings")).json() == before, "a preview saves nothing"

    second = preview.one(f'form[action="{SETTINGS}"]')
    saved = await browser.post(SETTINGS, {n: v[-1] for n, v in all_fields(second).items()})
    assert (saved.status, saved.answer.headers["location"]) == (303, f"{SETTINGS}?done=saved")
    after = (await admin.get("/admin/settings")).json()
    assert after == before | {
        "weights": {"semantic": 0.1, "keyword": 0.9},
        "similarity_threshold": 0.5,
    }


async def test_a_preview_leaves_no_record_and_shows_given_queries_where_none_are_kept(
    browser: Browser, admin: Caller, provider: FailingProvider, api_services: Services
) -> None:
    await find_differently(admin, provider)
    await admin.search("a query of another caller")
    page = await browser.get(SETTINGS)
    sent = fill(page, fusion="rrf", **{"weights.semantic": "0.1", "weights.keyword": "0.9"})
    preview = await browser.post(PREVIEW, sent)
    assert "The tenant does not keep the texts of queries" in preview.text
    preview = await browser.post(PREVIEW, sent | {"queries": "pier\r\n\r\nboat"})
    assert [text.split()[0] for text in preview.texts(".preview details > summary")] == ["pier", "boat"]
    assert "another caller" not in preview.text
    await api_services.journal.flush()
    assert (await admin.get("/admin/stats")).json()["searches_24h"] == 1


async def test_a_recent_query_keeps_its_filters_and_given_queries_come_first(
    admin: Caller, provider: FailingProvider, api_services: Services
) -> None:
    await find_differently(admin, provider)
    await admin.add("The pier of the other side", tags=["other"])
    await admin.patch("/admin/settings", {"keep_query_text": True})
    for number in range(6):
        await admin.search(f"boat {number}", mode="keyword")
    await admin.search("pier", tags=["other"], weights={"semantic": 0.2, "keyword": 0.8}, limit=3)
    assert admin.tenant_id is not None
    preview = await api_services.previews.preview(admin.tenant_id, SettingsPatch(fusion="rrf"), queries=["Near"])
    assert [found.query for found in preview.queries] == ["Near", "pier", "boat 5", "boat 4", "boat 3"]
    pier = preview.queries[1]
    assert [hit.content for hit in pier.after.results] == ["The pier of the other side"]
    assert all(hit.score < 0.1 for hit in pier.after.results), "by ranks"
    assert (preview.former.fusion, preview.proposed.fusion) == ("score", "rrf")


async def test_settings_that_do_not_rank_run_no_query(browser: Browser, admin: Caller) -> None:
    await admin.add("The pier")
    page = await browser.get(SETTINGS)
    sent = fill(page, keep_query_text="true", **{"limits.entries": "50", "queries": "pier"})
    preview = await browser.post(PREVIEW, sent)
    assert preview.texts(".changes dt") == ["Keep the texts of queries", "Entries"]
    assert not preview.all(".preview details")
    assert "do not change which results" in preview.text


async def test_a_stale_form_saves_nothing(browser: Browser, admin: Caller) -> None:
    page = await browser.get(SETTINGS)
    sent = fill(page, verified_boost="3")
    await admin.patch("/admin/settings", {"fusion": "rrf"})
    stored = (await admin.get("/admin/settings")).json()
    for path in (PREVIEW, SETTINGS):
        stale = await browser.post(path, sent)
        assert stale.status == 412
        assert stale.texts(".changes dt") == ["Fusion", "Boost of verified entries"]
        assert stale.one('input[name="verified_boost"]').value == "3"
        assert (await admin.get("/admin/settings")).json() == stored
    again = await browser.post(PREVIEW, fill(stale, fusion="rrf"))
    assert again.texts(".changes dt") == ["Boost of verified entries"]
    assert (await browser.post(SETTINGS, sent | {"version": "x"})).status == 422


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"weights.semantic": "0.1"}, "weights.keyword"),
        ({"weights.semantic": "0.5", "weights.keyword": "0.6"}, "weights.semantic"),
        ({"type_weights.lesson": "0"}, "type_weights.fact"),
        ({"max_limit": "51"}, "max_limit"),
    ],
)
async def test_an_invalid_value_is_refused_at_its_field(
    browser: Browser, admin: Caller, given: dict[str, str], field: str
) -> None:
    page = await browser.get(SETTINGS)
    for path in (PREVIEW, SETTINGS):
        refused = await browser.post(path, fill(page, **given))
        assert refused.status == 422
        assert [e.get("name") for e in refused.all("[aria-invalid=true]")] == [field]
    assert (await admin.get("/admin/settings")).json()["verified_boost"] == 1.5


async def test_the_api_takes_the_version_that_was_read(admin: Caller) -> None:
    read = await admin.get("/admin/settings")
    changed = await admin.request(
        "PATCH", "/admin/settings", json={"fusion": "rrf"}, headers={"If-Match": read.headers["etag"]}
    )
    assert changed.status_code == 200
    assert changed.headers["etag"] == (await admin.get("/admin/settings")).headers["etag"]
    assert changed.headers["etag"] != read.headers["etag"]
    stale = await admin.request(
        "PATCH", "/admin/settings", json={"verified_boost": 2}, headers={"If-Match": read.headers["etag"]}
    )
    assert stale.status_code == 412
    trail = (await admin.get("/admin/audit", params={"action": "settings.update"})).json()["items"]
    assert [row["outcome"] for row in trail] == ["refused", "done"]


@pytest.mark.parametrize(
    "changes",
    [
        {"fusion": "rrf", "rerank": False, "keep_query_text": True, "auto_tune": False},
        {"weights": {"semantic": 0.25, "keyword": 0.75}, "type_weights": {"fact": 1.5, "decision": 1.0}},
        {"similarity_threshold": 0.2, "max_limit": 20, "limits": {"entries": 7}},
    ],
)
def test_the_form_of_settings_gives_back_their_changes(changes: dict[str, Any]) -> None:
    defaults = DEFAULT_SETTINGS
    wanted = read_settings(changes)
    form = form_of(wanted)
    assert read_changes(form, wanted) == SettingsPatch()
    assert read_settings(read_changes(form, defaults).given()) == wanted
    back = read_changes(form_of(defaults), wanted).given()
    kept = {name: value for name, value in back.items() if name != "limits" and value is not None}
    assert read_settings(kept) == defaults
