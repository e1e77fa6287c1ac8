"""The health page of a tenant, only for its admins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from app.auth.principal import Role
from app.composition.services import Services
from app.console.pages.health import draw_hours, round_up
from tests.console.browser import Browser
from tests.console.conftest import SignIn
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.providers.failing import FailingProvider

HEALTH = "/console/health"


async def test_the_page_shows_stock_backlog_and_searches(
    browser: Browser,
    admin: Caller,
    stranger: Caller,
    provider: FailingProvider,
    api_services: Services,
    work: Callable[[], Awaitable[None]],
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
    assert page.texts("section[aria-labelledby=types-heading] tbody th") == [
        "passage of a document",
        "fact",
        "lesson",
    ]
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
    assert (stats["searches_24h"], stats["fallback_rate_24h"], stats["searches_without_results_24h"]) == (
        100,
        0.1,
        25,
    )


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
    rows = [
        (datetime(2026, 3, 1, 17, tzinfo=UTC), 40, 10),
        (datetime(2026, 2, 28, 17, tzinfo=UTC), 7, 0),
    ]
    chart = draw_hours(rows, now)
    assert chart.top == 50
    first, last = chart.bars
    assert (first.hour.day, first.outer_height, first.inner_height) == (28, 14, 0)
    assert (last.x, last.outer_height, last.inner_height) == (96.48, 80, 20)
    assert [text for text, _ in chart.labels] == ["18:00", "00:00", "06:00", "12:00"]
    assert draw_hours([], now).bars == []
    assert [round_up(n) for n in (0, 1, 2, 3, 9, 10, 11, 999, 1001)] == [1, 1, 2, 5, 10, 10, 20, 1000, 2000]
