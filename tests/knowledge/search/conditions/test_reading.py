"""A filter is refused with the place of each error, and within its bounds whatever it contains."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.filters import FIELDS, MAX_CONDITIONS, MAX_DEPTH, MAX_VALUES, read_filter
from app.contract.search import SearchQuery
from app.errors import InvalidInput
from tests.knowledge.search.conditions import oracle

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
                st.sampled_from(["field", "and", "or", "not", "eq", "in", "gt", "exists", "x"]),
                inner,
                max_size=3,
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
