"""Settings, usage, model and health."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from lxml import html

from app.auth.principal import Role
from app.composition.services import Services
from app.console.pages.health import draw_hours, round_up
from app.console.pages.settings import form_of, read_changes
from app.console.rendering import templates
from app.contract.models import Comparison, Quality
from app.contract.settings import DEFAULT_SETTINGS, SettingsPatch
from app.knowledge.reembedding.machine import SOURCES
from app.knowledge.tenants.directory import read_settings
from tests.console.browser import Browser, Page, all_fields
from tests.console.conftest import SignIn
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller, make_token
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


async def test_the_searches_that_the_weights_follow_are_shown(
    browser: Browser, admin: Caller, provider: FailingProvider, api_services: Services
) -> None:
    await find_differently(admin, provider)
    assert "Searches counted" not in (await browser.get(SETTINGS)).text
    await admin.search("pier")
    await api_services.similarities.flush()
    assert admin.tenant_id is not None
    api_services.tenants.forget(admin.tenant_id)
    page = await browser.get(SETTINGS)
    assert "Searches counted: 1. Their best hits have a mean similarity of" in page.text


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
    assert after == before | {"weights": {"semantic": 0.1, "keyword": 0.9}, "similarity_threshold": 0.5}


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
    preview = await api_services.replays.preview(admin.own_tenant, SettingsPatch(fusion="rrf"), queries=["Near"])
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


USAGE = "/console/usage"


async def test_limits_are_shown_with_their_use(browser: Browser, admin: Caller) -> None:
    for number in range(3):
        await admin.add(f"Fact {number}")
    await admin.patch("/admin/settings", {"limits": {"entries": 4}})
    page = await browser.get(USAGE)
    assert page.status == 200
    meter = page.one('meter[aria-labelledby="limit-entries"]')
    assert (meter.get("value"), meter.get("max"), meter.text) == ("3", "4", "75 %")
    kinds = page.texts("section[aria-labelledby=records-heading] tbody th")
    assert kinds == [
        *("Receipts of searches", "Feedback", "Audit trail", "Saved searches", "Webhook messages"),
        "Former versions",
    ]


async def test_usage_by_day_is_shown_and_downloaded(browser: Browser, admin: Caller) -> None:
    await admin.add("The harbour")
    page = await browser.get(USAGE)
    rows = page.all("section[aria-labelledby=days-heading] tbody tr")
    assert len(rows) == 30
    latest = [cell.text_content() for cell in rows[0].cssselect("th, td")]
    assert (latest[0], latest[2], latest[4]) == (f"{datetime.now(UTC):%Y-%m-%d}", "1", "1")
    table = (await browser.http.get(page.one("a[download]").get("href"))).text.splitlines()
    assert table[0].startswith("day,searches,writes")
    assert (len(table), table[-1].split(",")[2]) == (401, "1")


async def test_callers_are_counted_by_their_searches_and_changes(
    browser: Browser, admin: Caller, reader: Caller, stranger: Caller
) -> None:
    await admin.add("The harbour")
    await stranger.add("Not counted")
    await reader.search("harbour")
    await reader.search("zeppelin", mode="keyword")
    await reader.post("/knowledge/entries", {"content": "Not allowed"})
    callers = {row["subject"]: row for row in (await admin.get("/admin/callers")).json()["items"]}
    rita = callers["rita"]
    assert (rita["searches"], rita["without_results"], rita["changes"], rita["refused"]) == (2, 1, 0, 1)
    (own,) = (row for name, row in callers.items() if name != "rita")
    assert (own["searches"], own["p95_ms"]) == (0, None)
    assert own["changes"] >= 1
    page = await browser.get(USAGE)
    assert set(page.texts("section[aria-labelledby=callers-heading] tbody th")) == set(callers)
    found = await browser.get(page.one('a[href="/console/receipts?subject=rita"]').get("href"))
    assert len(found.all("tbody tr")) == 2


MODEL = "/console/model"


async def test_vectors_are_rebuilt_from_the_page(browser: Browser, admin: Caller, work: Work) -> None:
    await admin.add("A fact")
    page = await browser.get(MODEL)
    assert page.texts("h2") == ["Move to the other model", "Rebuild"]
    answer = await browser.post(MODEL, {"action": "rebuild"})
    assert answer.status in (200, 303)
    page = await browser.get(MODEL)
    assert page.texts(".figures dd")[0] == "filling"
    assert "nothing is compared" in page.texts("#account li")[0]
    await work()
    page = await browser.get(MODEL)
    assert page.texts(".figures dd")[:2] == ["switched", "100 %"]
    assert (await browser.post(MODEL, {"action": "end"})).status in (200, 303)
    assert "No model change is in progress." in (await browser.get(MODEL)).text


async def test_opening_the_page_is_recorded_as_a_read_and_not_as_a_refusal(browser: Browser, admin: Caller) -> None:
    page = await browser.get(MODEL)
    assert "The service has no other model." in page.text
    assert not page.all("[name=by_hand]")
    trail = (await admin.get("/admin/audit", params={"action": "model.read"})).json()["items"]
    assert [(record["action"], record["outcome"]) for record in trail] == [("model.read", "done")]


async def test_an_action_that_is_not_possible_is_explained(
    browser: Browser, admin: Caller, api_services: Services
) -> None:
    assert (await browser.post(MODEL, {"action": "switch"})).status == 404
    refused = await browser.post(MODEL, {"action": "start"})
    assert refused.status == 422
    assert "EMBEDDING_NEXT_PROVIDER" in refused.text
    assert (await browser.post(MODEL, {"action": "upgrade"})).status == 422
    await api_services.reembedding.start(admin.own_tenant, rebuild=True)
    assert (await browser.post(MODEL, {"action": "switch"})).status == 409


async def test_a_start_takes_the_rate_of_the_form(browser: Browser, admin: Caller) -> None:
    await admin.add("A fact")
    for rate in ("many", "0"):
        refused = await browser.post(MODEL, {"action": "rebuild", "rate": rate})
        assert (refused.status, "rate" in refused.text) == (422, True)
    assert (await browser.post(MODEL, {"action": "rebuild", "rate": "600"})).status == 303
    assert (await admin.get("/admin/reembed")).json()["rate"] == 600


def test_the_comparison_is_a_table_of_its_measures() -> None:
    found = Comparison(
        queries=40,
        source="queries",
        depth=10,
        overlap=0.81,
        semantic_overlap=0.6,
        same=7,
        empty=0,
        judgements=12,
        judged=9,
        quality=Quality(0.5, 0.75, -0.1, 0.6),
        semantic_quality=Quality(0.5, 0.25, -0.4, -0.1),
    )
    macros: Any = templates.get_template("parts/model_comparison.html").module
    tree = html.fromstring(f"<div>{macros.comparison(found, SOURCES)}</div>")
    rows = [[" ".join(cell.text_content().split()) for cell in row] for row in tree.cssselect("tbody tr")]
    assert rows == [
        ["First 10 hits that both find, whole searches", "81 %", ""],
        ["First 10 hits that both find, by meaning", "60 %", ""],
        ["Queries with the same hits in the same order", "7", ""],
        ["nDCG@10, whole searches", "0.500", "0.750", "not certain +0.250 -0.100 to +0.600"],
        ["nDCG@10, by meaning", "0.500", "0.250", "worse -0.250 -0.400 to -0.100"],
    ]


HEALTH = "/console/health"


async def test_the_page_shows_stock_backlog_and_searches(
    browser: Browser, admin: Caller, stranger: Caller, provider: FailingProvider, api_services: Services, work: Work
) -> None:
    await stranger.add("Not counted", entry_type="decision")
    await admin.add("A fact")
    await admin.upload("a.txt", b"The harbour", "text/plain")
    await work()
    await admin.upload("b.txt", b"The bell", "text/plain")
    provider.down = True
    await admin.add("Waits for its vector", entry_type="lesson")
    await admin.search("harbour")
    await admin.search("zzz", mode="keyword")
    await api_services.journal.flush()
    page = await browser.get(HEALTH)
    assert page.status == 200
    figures = dict(zip(page.texts(".figures dt"), page.texts(".figures dd"), strict=True))
    assert figures == {
        "Entries": "3",
        "Waiting for vectors": "1",
        "Searches, 24 h": "2",
        "Keyword only, 24 h": "50.0 %",
        "Without results, 24 h": "1",
    }
    assert page.texts("section[aria-labelledby=types-heading] tbody th") == ["passage of a document", "fact", "lesson"]
    (model,) = page.texts("section[aria-labelledby=models-heading] tbody tr")
    assert model.startswith(f"{provider.model.provider}/{provider.model.name} in use")
    assert model.endswith("exact search 2210"), "entries, passages, waiting, refused"
    work_waiting = page.texts("section[aria-labelledby=backlog-heading] tbody tr")
    assert any(row.startswith("Documents to process10") for row in work_waiting)
    assert len(page.all(".plot rect.outer")) in (2, 4), "one hour or two, in both charts"


async def test_hours_are_counted_and_timed_in_the_database(admin: Caller, api_database: TestDatabase) -> None:
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    old = hour - timedelta(hours=22)
    async with connected(api_database.superuser_dsn) as superuser:
        await superuser.execute(
            "insert into searches (tenant_id, id, subject, at, fallback, result_count, query_time_ms, receipt)"
            " select $1, gen_random_uuid(), 'ada', at + n * interval '1 second', n <= 10, n % 4, n, '{}'"
            " from generate_series(1, 100) n, unnest($2::timestamptz[]) at",
            admin.tenant_id,
            [hour, old],
        )
    stats = (await admin.get("/admin/stats")).json()
    (counted,) = stats["searches_by_hour"]
    assert datetime.fromisoformat(counted.pop("hour")) == hour
    assert counted == {"searches": 100, "fallbacks": 10, "without_results": 25, "p50_ms": 50, "p95_ms": 95}
    assert (stats["searches_24h"], stats["fallback_rate_24h"], stats["searches_without_results_24h"]) == (100, 0.1, 25)


@pytest.mark.parametrize("role", [Role.READER, Role.CREATOR])
async def test_the_page_is_only_for_admins(sign_in: SignIn, admin: Caller, role: Role) -> None:
    browser = sign_in(Caller(admin.http, admin.tenant_id, make_token(admin.tenant_id, role)))
    page = await browser.get(HEALTH)
    assert page.status == 403
    assert page.all("[role=alert]")


async def test_an_empty_tenant_has_a_page(browser: Browser, signed_out: Browser) -> None:
    page = await browser.get(HEALTH)
    assert page.status == 200
    assert "No searches in the last 24 hours" in page.text
    assert "The queue is empty" in page.text
    assert (await signed_out.get(HEALTH)).status == 303


def test_bars_are_placed_at_their_hours_and_fit_the_scale() -> None:
    now = datetime(2026, 3, 1, 17, 42, tzinfo=UTC)
    rows = [(datetime(2026, 3, 1, 17, tzinfo=UTC), 40, 10), (datetime(2026, 2, 28, 17, tzinfo=UTC), 7, 0)]
    chart = draw_hours(rows, now)
    assert chart.top == 50
    first, last = chart.bars
    assert (first.hour.day, first.outer_height, first.inner_height) == (28, 14, 0)
    assert (last.x, last.outer_height, last.inner_height) == (96.48, 80, 20)
    assert [text for text, _ in chart.labels] == ["18:00", "00:00", "06:00", "12:00"]
    assert draw_hours([], now).bars == []
    assert [round_up(n) for n in (0, 1, 2, 3, 9, 10, 11, 999, 1001)] == [1, 1, 2, 5, 10, 10, 20, 1000, 2000]
