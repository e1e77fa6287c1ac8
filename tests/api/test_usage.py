"""The usage of a tenant by day, for its admin and the platform's."""

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_problem

ALL = {"X-KB-Access": "all"}


async def read(caller: Caller, path: str = "/admin/usage", **days: Any) -> list[dict[str, Any]]:
    answer = await caller.get(path, params=days, headers={} if "tenants" in path else ALL)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_the_usage_of_today_counts_all_of_the_tenant(
    admin: Caller, reader: Caller, platform: Caller, stranger: Caller, work: Work
) -> None:
    entry = await admin.add("The harbour opens at six", title="Opening", readers=["user:ada"])
    await admin.patch(f"/knowledge/entries/{entry['id']}", {"tags": ["harbour"]})
    await admin.post("/knowledge/entries/bulk", {"entries": [{"content": "one"}, {"content": "two"}, {"content": ""}]})
    await admin.upload("rules.md", b"The harbour closes at night.", "text/markdown")
    await work()
    await admin.delete(f"/knowledge/entries/{(await admin.add('three'))['id']}")
    for _ in range(2):
        await reader.search("harbour")
    *before, today = await read(admin)
    assert len(before) == 29
    assert today["day"] == datetime.now(UTC).date().isoformat()
    limits = (await admin.get("/admin/stats", headers=ALL)).json()["limits"]
    assert (today["searches"], today["writes"], today["files"]) == (2, 7, 1)
    assert today["embedded_tokens"] == limits["embedding_tokens_per_day"]["used"] > 0
    assert (
        (today["entries"], today["bytes"])
        == (limits["entries"]["used"], limits["bytes"]["used"])
        == (4, today["bytes"])
    )
    assert before[-1] == {**dict.fromkeys(today, 0), "day": before[-1]["day"]}
    assert (await read(platform, f"/admin/tenants/{admin.tenant_id}/usage"))[-1] == today
    assert (await read(stranger))[-1]["writes"] == 0


async def test_a_day_without_counts_has_what_was_stored_before_it(admin: Caller, api_database: TestDatabase) -> None:
    await admin.add("The harbour opens at six")
    await read(admin)
    today = datetime.now(UTC).date()
    async with connected(api_database.superuser_dsn) as superuser:
        await superuser.execute(
            "update usage_by_day set day = day - 5, searches = 3 where tenant_id = $1", admin.own_tenant
        )
        await superuser.execute(
            "insert into usage_by_day (tenant_id, day, tokens) values ($1, $2, 7)",
            *(admin.own_tenant, today - timedelta(days=2)),
        )
        await superuser.execute("delete from audit where tenant_id = $1", admin.own_tenant)
    days = await read(admin, **{"from": str(today - timedelta(days=6)), "to": str(today - timedelta(days=1))})
    assert [(day["entries"], day["searches"], day["embedded_tokens"]) for day in days] == [
        *((0, 0, 0), (1, 3, days[1]["embedded_tokens"]), (1, 0, 0), (1, 0, 0), (1, 0, 7), (1, 0, 0))
    ]
    answer = await admin.get("/admin/usage", params={"from": str(today - timedelta(days=6)), "format": "csv"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [{name: str(value) for name, value in day.items()} for day in days] == rows[:6]


@pytest.mark.parametrize(
    "days",
    [
        {"from": "2026-02-01", "to": "2026-01-31"},
        {"from": "2025-01-01", "to": "2026-03-01"},
        {"from": "yesterday"},
        {"from": "0"},
        {"from": "2026-13-01"},
        {"from": "2026-02-30"},
    ],
)
async def test_wrong_days_are_refused(admin: Caller, days: dict[str, str]) -> None:
    problem = expect_problem(await admin.get("/admin/usage", params=days), 422)
    assert [error["field"] for error in problem["errors"]] == ["from"]
    assert len(days) == 2 or problem["errors"][0]["message"] == "must be a date, such as 2026-01-31"
