"""Conditions and times in searches: pages, saved searches, relaxations and the reasons why an entry is not found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.saved_searches import NewSavedSearch
from app.contract.search import SearchQuery
from app.errors import InvalidInput
from tests.fixtures.database.cluster import connected
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs

pytestmark = pytest.mark.own_tenants

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATE: dict[str, Any] = {"field": "metadata.n", "gte": 3}


@pytest.fixture
async def numbered(
    services: Services,
    tenant: Tenant,
    failing_provider: FailingProvider,
    superuser_dsn: str,
    run_jobs: RunJobs,
) -> Tenant:
    """Six entries with `n`, created a day apart and changed an hour later, and near every query."""
    failing_provider.default = failing_provider.direction(1)
    drafts = [
        EntryDraft(content=f"harbour {n}", language="english", metadata={"n": n}, external_id=str(n)) for n in range(6)
    ]
    await services.entries.create_many(tenant.id, drafts)
    await run_jobs()
    async with connected(superuser_dsn) as superuser:
        await superuser.execute(
            """update entries set created_at = $2::timestamptz + external_id::integer * interval '1 day',
                      updated_at = $2::timestamptz + external_id::integer * interval '1 day' + interval '1 hour'
                where tenant_id = $1""",
            tenant.id, START,
        )  # fmt: skip
    return tenant


async def found(services: Services, tenant: Tenant, **fields: Any) -> set[int]:
    result = await services.search.search(tenant.id, SearchQuery(query="harbour", limit=100, **fields))
    return {hit.metadata["n"] for hit in result}


@pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
async def test_ranges_of_times_are_half_open(services: Services, numbered: Tenant, mode: Any) -> None:
    day, hour = timedelta(days=1), timedelta(hours=1)
    for kind, offset in (("created", 0 * hour), ("updated", hour)):
        start = START + offset
        for first, last in product((None, 1, 2), (None, 3, 6)):
            times: dict[str, Any] = {}
            if first is not None:
                times[f"{kind}_after"] = start + first * day
            if last is not None:
                times[f"{kind}_before"] = start + last * day
            expected = set(range(first or 0, last or 6))
            threshold = {"similarity_threshold": 0.0}
            assert await found(services, numbered, mode=mode, **times, **threshold) == expected, times
        just = {f"{kind}_after": start + timedelta(microseconds=1), f"{kind}_before": start + 2 * day}
        assert await found(services, numbered, mode="keyword", **just) == {1}


async def test_a_time_has_a_zone_and_the_later_one_is_later(services: Services, numbered: Tenant) -> None:
    naive, aware = START.replace(tzinfo=None), START
    for fields, wrong in (
        ({"created_after": naive}, "created_after"),
        ({"updated_before": "2026-01-31T12:00:00"}, "updated_before"),
        ({"created_after": aware, "created_before": aware}, "created_before"),
        ({"updated_after": datetime.max.replace(tzinfo=UTC), "updated_before": aware}, "updated_before"),
    ):
        with pytest.raises(InvalidInput) as refused:
            SearchQuery(query="harbour", **fields)
        assert [error.field for error in refused.value.errors] == [wrong]
    edges = {
        "created_after": datetime.min.replace(tzinfo=UTC),
        "created_before": datetime.max.replace(tzinfo=UTC),
    }
    assert await found(services, numbered, mode="keyword", **edges) == set(range(6))


async def test_a_cursor_keeps_conditions_and_times(services: Services, numbered: Tenant) -> None:
    narrow: dict[str, Any] = {"filter": LATE, "created_before": START + timedelta(days=5)}
    first = await services.search.search(numbered.id, SearchQuery(query="harbour", mode="keyword", limit=1, **narrow))
    cursor = first.metadata.next_cursor
    assert cursor is not None
    for again in ({}, narrow, {**narrow, "created_before": narrow["created_before"].astimezone()}):
        query = SearchQuery(query="harbour", mode="keyword", limit=5, cursor=cursor, **again)
        page = await services.search.search(numbered.id, query)
        assert {hit.metadata["n"] for hit in (*first, *page)} == {3, 4}
    for other in ({"filter": {**LATE, "gte": 2}}, {"filter": LATE}, {**narrow, "updated_after": START}):
        query = SearchQuery(query="harbour", mode="keyword", limit=5, cursor=cursor, **other)
        with pytest.raises(InvalidInput, match="cursor: belongs to another search"):
            await services.search.search(numbered.id, query)


async def test_a_saved_search_keeps_conditions_and_times(services: Services, numbered: Tenant) -> None:
    request = {
        "query": "harbour",
        "mode": "keyword",
        "filter": LATE,
        "created_before": "2026-02-04T14:00:00+02:00",
    }
    saved, _ = await services.saved_searches.save(numbered.id, "anna", NewSavedSearch("Late", request))
    result = await services.saved_searches.run(numbered.id, "anna", saved.id)
    assert {hit.metadata["n"] for hit in result} == {3}
    wrong = {
        "query": "q",
        "filter": {"not": {"field": "metadata.n", "gt": []}},
        "created_after": "yesterday",
    }
    with pytest.raises(InvalidInput) as refused:
        await services.saved_searches.save(numbered.id, "anna", NewSavedSearch("Wrong", wrong))
    assert [error.field for error in refused.value.errors] == [
        "request.filter.not.gt",
        "request.created_after",
    ]


async def test_relaxations_and_reasons_name_conditions_and_times(services: Services, numbered: Tenant) -> None:
    narrow: dict[str, Any] = {"filter": LATE, "created_before": START + timedelta(days=2)}
    query = SearchQuery(query="harbour", mode="keyword", **narrow)
    result = await services.search.search(numbered.id, query)
    assert list(result) == []
    assert {(*r.without, r.matches) for r in result.metadata.relaxations} == {
        ("filter", 2),
        ("created_before", 3),
    }
    verdict = await services.search.why_not(numbered.id, "0", query)
    assert [reason.detail for reason in verdict.reasons] == ["filter does not match"]
    verdict = await services.search.why_not(numbered.id, "5", query)
    assert [reason.detail for reason in verdict.reasons] == ["created_before does not match"]


async def test_a_filter_belongs_to_the_search_that_was_asked(services: Services, numbered: Tenant) -> None:
    given = {"field": "metadata.n", "in": [1, 2]}
    query = SearchQuery(query="harbour", mode="keyword", filter=given)
    given["in"] = []
    assert {hit.metadata["n"] for hit in await services.search.search(numbered.id, query)} == {1, 2}
