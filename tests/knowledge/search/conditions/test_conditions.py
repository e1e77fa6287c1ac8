"""Conditions of a filter: reading and searches."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.filters import FIELDS, MAX_CONDITIONS, MAX_DEPTH, MAX_VALUES, read_filter
from app.contract.saved_searches import NewSavedSearch
from app.contract.search import SearchQuery
from app.errors import InvalidInput
from tests.fixtures.database.cluster import connected
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs
from tests.knowledge.search.conditions import oracle

pytestmark = pytest.mark.own_tenants


ONE: dict[str, Any] = {"field": "metadata.a", "eq": 1}


def nested(levels: int) -> dict[str, Any]:
    term = ONE
    for _ in range(levels):
        term = {"not": term}
    return term


def errors_of(given: Any) -> dict[str, str]:
    term, errors = read_filter(given)
    assert (term is None) == bool(errors)
    return {error.field: error.message for error in errors}


@pytest.mark.parametrize(
    ("given", "place", "message"),
    [
        ([], "filter", "must be an object with exactly one of"),
        ({}, "filter", "must be an object with exactly one of"),
        ({"and": [ONE], "or": [ONE]}, "filter", "must be an object with exactly one of"),
        ({"and": [ONE], "eq": 1}, "filter", 'must have nothing but "and"'),
        ({"and": []}, "filter.and", "must be a list with at least one condition"),
        ({"or": ONE}, "filter.or", "must be a list with at least one condition"),
        ({"and": [ONE, {"field": "metadata.a", "gt": True}]}, "filter.and[1].gt", "must be a text"),
        ({"and": [ONE, {"field": "metadata.a", "gt": None}]}, "filter.and[1].gt", "must be a text"),
        ({"not": {"or": [{"field": "metadata.a"}]}}, "filter.not.or[0]", "must have one or more of eq, ne, in"),
        ({"field": "metadata.a", "eq": [1]}, "filter.eq", "must be a text"),
        ({"field": "metadata.a", "eq": {"b": 1}}, "filter.eq", "must be a text"),
        ({"field": "metadata.a", "eq": float("nan")}, "filter.eq", "must be a text"),
        ({"field": "metadata.a", "eq": 2**64}, "filter.eq", "integers of at most 64 bits"),
        ({"field": "metadata.a", "eq": "\x00"}, "filter.eq", "no NUL"),
        ({"field": "metadata.a", "eq": "\ud800"}, "filter.eq", "no lone surrogates"),
        ({"field": "metadata.a", "in": []}, "filter.in", "must be a list with at least one value"),
        ({"field": "metadata.a", "in": [1, "a", [2]]}, "filter.in[2]", "must be a text"),
        ({"field": "metadata.a", "exists": 1}, "filter.exists", "must be true or false"),
        ({"field": "metadata.a", "$gt": 1}, "filter", "must have only field and operators: eq"),
        ({"field": "metadata.a", "like_regex": "(a+)+"}, "filter", "must have only field and operators: eq"),
        ({"field": "meta", "eq": 1}, "filter.field", "must be metadata.KEY or one of id, entry_type, title"),
        ({"field": "metadata", "eq": 1}, "filter.field", "must be metadata.KEY"),
        ({"field": "metadata..a", "eq": 1}, "filter.field", "must be metadata.KEY"),
        ({"field": "metadata.a\\", "eq": 1}, "filter.field", "must be metadata.KEY"),
        ({"field": "metadata.a\\b", "eq": 1}, "filter.field", "must be metadata.KEY"),
        ({"field": ["metadata", 1], "eq": 1}, "filter.field", "must be metadata.KEY"),
        ({"field": ["title", "a"], "eq": 1}, "filter.field", "must be metadata.KEY"),
        ({"field": ["metadata", "a\x00"], "eq": 1}, "filter.field", "without NUL"),
        ({"field": ["metadata", *"abcdefghijklmnopqrstu"], "eq": 1}, "filter.field", "at most 20 keys"),
        ({"field": 5, "eq": 1}, "filter.field", "must be metadata.KEY"),
        ({"field": "tags", "gt": "a"}, "filter.gt", "does not fit this field: use eq, ne, in, exists"),
        ({"field": "entry_type", "eq": "note"}, "filter.eq", "must be one of fact, summary"),
        ({"field": "is_verified", "eq": 1}, "filter.eq", "must be true or false"),
        ({"field": "confidence", "gte": True}, "filter.gte", "must be a finite number"),
        ({"field": "confidence", "eq": None}, "filter.eq", "must be a finite number"),
        ({"field": "asset_id", "eq": "x"}, "filter.eq", "must be a UUID, or null"),
        ({"field": "created_at", "gt": "2026-01-31"}, "filter.gt", "must be a date and time with a time zone"),
        ({"field": "created_at", "gt": "2026-01-31T12:00:00"}, "filter.gt", "with a time zone"),
        ({"field": "created_at", "gt": 1_700_000_000}, "filter.gt", "with a time zone"),
    ],
)  # fmt: skip
def test_an_error_names_its_place_and_what_is_allowed(given: Any, place: str, message: str) -> None:
    errors = errors_of(given)
    assert list(errors) == [place]
    assert message in errors[place]
    with pytest.raises(InvalidInput, match=place.replace("[", r"\[")):
        SearchQuery(query="q", filter=given if isinstance(given, dict) else {"and": given})


def test_several_errors_are_told_together() -> None:
    given = {"and": [{"field": "confidence", "gt": "x", "lt": "y"}, {"field": "title", "in": [1]}]}
    assert set(errors_of(given)) == {"filter.and[0].gt", "filter.and[0].lt", "filter.and[1].in[0]"}


def test_depth_conditions_values_and_bytes_are_bounded() -> None:
    assert errors_of(nested(MAX_DEPTH)) == {}
    assert "at most 10 levels" in next(iter(errors_of(nested(MAX_DEPTH + 1)).values()))
    assert errors_of({"or": [ONE] * MAX_CONDITIONS}) == {}
    assert errors_of({"or": [ONE] * (MAX_CONDITIONS + 1)}) == {
        f"filter.or[{MAX_CONDITIONS}]": f"must have at most {MAX_CONDITIONS} conditions in the whole filter"
    }
    assert errors_of({"field": "metadata.a", "in": list(range(MAX_VALUES))}) == {}
    many = [{"field": "metadata.a", "in": list(range(MAX_VALUES // 2 + 1))}] * 2
    assert list(errors_of({"and": many})) == ["filter.and[1].in"]
    assert errors_of({"field": "metadata.a", "eq": "x" * 66_000}) == {"filter": "must have at most 64 KiB"}


@pytest.mark.parametrize(
    "given",
    [
        nested(900),
        {"or": [ONE] * 10_000},
        {"or": [5] * 10_000},
        {"and": [{"and": [{"and": []}] * 100}] * 100},
        {"field": "metadata.a", "in": ["x"] * 100_000},
        {"field": "metadata." + "a" * 1_000_000, "eq": 1},
        {"field": "metadata" + ".a\\." * 100_000, "eq": 1},
        {"field": "metadata.a", **{f"op{n}": 1 for n in range(10_000)}},
    ],
)
def test_hostile_filters_are_refused_with_few_errors(given: Any) -> None:
    assert 1 <= len(errors_of(given)) <= MAX_CONDITIONS + 1


@given(oracle.filters)
def test_generated_filters_are_read(filter_json: dict[str, Any]) -> None:
    assert errors_of(filter_json) == {}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["field", "and", "or", "not", "eq", "in", "gt", "exists", "x"]), inner, max_size=3
            )
        ),
    )
)
def test_anything_is_read_or_refused(anything: Any) -> None:
    errors_of(anything)


def test_a_dotted_path_and_a_list_name_the_same_field() -> None:
    dotted, _ = read_filter({"field": "metadata.a\\.b.c\\\\", "eq": 1})
    listed, _ = read_filter({"field": ["metadata", "a.b", "c\\"], "eq": 1})
    assert dotted == listed
    assert read_filter({"field": ["title"], "eq": "A"}) == read_filter({"field": "title", "eq": "A"})


@pytest.mark.parametrize("name", FIELDS)
def test_each_field_has_operators_for_its_values(name: str) -> None:
    assert errors_of({"field": name, "exists": True}) == {}
    assert ("gt" in FIELDS[name].operators) == (name in oracle.IN_ORDER)


START = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATE: dict[str, Any] = {"field": "metadata.n", "gte": 3}


@pytest.fixture
async def numbered(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, superuser_dsn: str, run_jobs: RunJobs
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
    edges = {"created_after": datetime.min.replace(tzinfo=UTC), "created_before": datetime.max.replace(tzinfo=UTC)}
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
    request = {"query": "harbour", "mode": "keyword", "filter": LATE, "created_before": "2026-02-04T14:00:00+02:00"}
    saved, _ = await services.saved_searches.save(numbered.id, "anna", NewSavedSearch("Late", request))
    result = await services.saved_searches.run(numbered.id, "anna", saved.id)
    assert {hit.metadata["n"] for hit in result} == {3}
    wrong = {"query": "q", "filter": {"not": {"field": "metadata.n", "gt": []}}, "created_after": "yesterday"}
    with pytest.raises(InvalidInput) as refused:
        await services.saved_searches.save(numbered.id, "anna", NewSavedSearch("Wrong", wrong))
    assert [error.field for error in refused.value.errors] == ["request.filter.not.gt", "request.created_after"]


async def test_relaxations_and_reasons_name_conditions_and_times(services: Services, numbered: Tenant) -> None:
    narrow: dict[str, Any] = {"filter": LATE, "created_before": START + timedelta(days=2)}
    query = SearchQuery(query="harbour", mode="keyword", **narrow)
    result = await services.search.search(numbered.id, query)
    assert list(result) == []
    assert {(*r.without, r.matches) for r in result.metadata.relaxations} == {("filter", 2), ("created_before", 3)}
    verdict = await services.search.why_not(numbered.id, "0", query)
    assert [reason.detail for reason in verdict.reasons] == ["filter does not match"]
    verdict = await services.search.why_not(numbered.id, "5", query)
    assert [reason.detail for reason in verdict.reasons] == ["created_before does not match"]


async def test_a_filter_belongs_to_the_search_that_was_asked(services: Services, numbered: Tenant) -> None:
    given = {"field": "metadata.n", "in": [1, 2]}
    query = SearchQuery(query="harbour", mode="keyword", filter=given)
    given["in"] = []
    assert {hit.metadata["n"] for hit in await services.search.search(numbered.id, query)} == {1, 2}
