"""The range of each field of an entry and of a search; values outside never reach the database."""

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import DEFAULTS, FIELDS, EntryDraft
from app.contract.search import SearchQuery, Weights, most_hits
from app.contract.validation import validate
from app.db.principals import acting_for_service
from app.errors import InvalidInput
from app.knowledge.entries.entry import own_draft
from tests.fixtures.providers.failing import FailingProvider

pytestmark = pytest.mark.own_tenants

NUL, SURROGATE = "a\x00b", "a\ud800b"
MARKED, MARKS = "\u0301" * 31, "\u0301\u0316" * 50_000
ID = uuid4()
NOT_TEXT: tuple[Any, ...] = (7, b"x", ["x"], "", "  \n", NUL, SURROGATE)

# For each field of an entry: allowed values at the bounds, and refused values.
PRINCIPALS: tuple[tuple[Any, ...], tuple[Any, ...]] = (
    (None, ["group:a"], ["group:/a/b c", "user:ü@x"], [f"user:{n:03}" for n in range(64)], ["group:" + "x" * 258]),
    ([], "group:a", ["a"], ["group:"], ["group: a"], ["user:a "], ["everyone"], ["*"], [NUL],
     ["group:" + SURROGATE], ["group:" + "x" * 259], [f"user:{n}" for n in range(65)], [1],
     {"group:a": 1}, ["group:a\nb"]),
)  # fmt: skip
ENTRY_FIELDS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "content": (("x", "ü" * 100_000, " x ", MARKED[1:]), (*NOT_TEXT, None, "x" * 100_001, MARKED, MARKS)),
    "title": (("x", "x" * 1_000, None, MARKED[1:]), (*NOT_TEXT, "x" * 1_001, MARKED)),
    "entry_type": (
        ("fact", "summary", "template", "decision", "lesson", "temp_note", "insight"),
        ("chunk", "Fact", "", None, ["fact"], 1),
    ),
    "tags": (
        ([], ["a"], ("a", "b"), ["x" * 100], [str(n) for n in range(50)]),
        (None, "a", [""], ["x" * 101], [str(n) for n in range(51)], [NUL], [SURROGATE], [1], {"a": 1}),
    ),
    "roles": ((["all"], ["pm", "dev", "qa"]), (None, [], "all", ["boss"], [["all"]], ["all"] * 5)),
    "confidence": ((0, 1, 0.5), (-0.1, 1.1, float("nan"), float("inf"), True, "1", None)),
    "scope": (("global", "project"), ("local", "", None, ["global"])),
    "parent_id": ((ID, str(ID), None), (1, "", "x")),
    "source_ids": (
        ([], [ID], [str(ID)], [uuid4() for _ in range(100)]), (None, ID, ["x"], [uuid4() for _ in range(101)]),
    ),
    "superseded_by_id": ((ID, str(ID), None), (1, "x")),
    "is_verified": ((True, False), (1, 0, None, "true")),
    "metadata": (
        ({}, {"a": [1, {"b": None}]}, {"k": "x" * 65_000}),
        (None, [], "x", {1: 2}, {"k": "x" * 65_536}, {"k": NUL}, {NUL: 1}, {"k": SURROGATE}, {"k": {1}}),
    ),
    "language": (("english", "german", "simple", None), ("en", "", "klingon", ["english"], "english; drop")),
    "expires_at": (
        (datetime(2030, 1, 1, tzinfo=UTC), None),
        (datetime(2030, 1, 1), "2030-01-01", 0),  # noqa: DTZ001
    ),
    "external_id": (("x", "x" * 512, None), (*NOT_TEXT, "x" * 513)),
    "readers": PRINCIPALS,
    "writers": PRINCIPALS,
}  # fmt: skip


def test_every_field_of_an_entry_is_in_the_table() -> None:
    assert set(ENTRY_FIELDS) == set(FIELDS) == {"content", *DEFAULTS.given()}


@pytest.mark.parametrize("name", ENTRY_FIELDS)
def test_entry_field_allows_its_range(name: str) -> None:
    for value in ENTRY_FIELDS[name][0]:
        with acting_for_service():
            assert name in own_draft(validate(EntryDraft, {name: value})).given()


@pytest.mark.parametrize("name", ENTRY_FIELDS)
def test_entry_field_refuses_values_outside_its_range_by_name(name: str) -> None:
    for value in ENTRY_FIELDS[name][1]:
        with pytest.raises(InvalidInput) as caught:
            validate(EntryDraft, {name: value})
        assert {error.field.partition(".")[0] for error in caught.value.errors} == {name}, value
        assert all(error.message for error in caught.value.errors)


def test_all_invalid_fields_are_reported_together() -> None:
    with pytest.raises(InvalidInput) as caught:
        EntryDraft(content="", confidence=2, title="")
    assert {e.field for e in caught.value.errors} == {"content", "confidence", "title"}


def test_unknown_fields_are_named() -> None:
    with pytest.raises(InvalidInput, match="nothing: unknown field; more: unknown field"):
        validate(EntryDraft, {"content": "x", "nothing": 1, "more": None})


def test_repeated_list_values_are_dropped_in_order() -> None:
    assert EntryDraft(tags=["b", "a", "b"]).tags == ("b", "a")


async def test_allowed_values_are_stored_unchanged(services: Services, tenant: Tenant) -> None:
    """The database has no stricter rule than the checks."""
    there, _ = await services.entries.create(tenant.id, EntryDraft(content="something to refer to"))
    for name, (allowed, _) in ENTRY_FIELDS.items():
        for number, value in enumerate(allowed):
            if name in ("parent_id", "superseded_by_id") and value is not None:
                value = there.id
            if name == "source_ids" and value:
                value = [there.id]
            content = f"number {number} of {name}"
            with acting_for_service():
                draft = validate(EntryDraft, {"content": content, name: value})
                entry, _ = await services.entries.create(tenant.id, draft)
            if not (name == "language" and value is None):
                stored = getattr(entry, name)
                assert (list(value) if isinstance(value, tuple) else value) == stored, name


async def test_refused_entry_writes_nothing(services: Services, tenant: Tenant) -> None:
    for values in ({"content": NUL}, {"content": SURROGATE}, {}, {"title": "alone"}, {"content": "x", "tags": 1}):
        with pytest.raises(InvalidInput):
            await services.entries.create(tenant.id, validate(EntryDraft, values))
    assert (await services.administration.stats(tenant.id)).entries == 0


LONG_TEXTS = {
    "one word": "x" * 100_000,
    "punctuation": "-'\\/.:" * 16_000,
    "identifiers": " ".join(f"{chr(0x20000 + n)}{chr(0x20001 + n)}.{n}" for n in range(10_000)),
    "four-byte words": " ".join(chr(0x20000 + n) * 2 for n in range(30_000)),
    "marks": ("a" + "\u0301\u0316" * 15) * 3_225,
    "tags": "<a>" * 33_000,
}


@pytest.mark.slow
async def test_extreme_content_is_stored_and_found(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    failing_provider.default = failing_provider.direction(1)
    for name, text in LONG_TEXTS.items():
        text = text[:100_000]
        entry, _ = await services.entries.create(tenant.id, EntryDraft(content=text, title=text[:1_000]))
        assert entry.content == text
        result = await services.search.search(tenant.id, SearchQuery(query=text[:10_000]))
        (hit,) = [hit for hit in result if hit.id == entry.id]
        assert len(hit.snippet) <= 240, name


def weigh(semantic: Any, keyword: Any) -> dict[str, Any]:
    """Weights as JSON has them."""
    return {"semantic": semantic, "keyword": keyword}


# For each field of a search: allowed values, and refused values.
SEARCH_FIELDS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "query": (("x", "x" * 10_000, "  " + "x" * 10_000 + "  "), ("", " \n\t", "x" * 10_001, NUL, SURROGATE, MARKED)),
    "mode": (("hybrid", "semantic", "keyword"), ("", "both")),
    "limit": ((1, 100), (0, -1, 101)),
    "similarity_threshold": ((None, 0, 1, 0.5), (-0.01, 1.01, float("nan"))),
    "weights": (
        (None, Weights(1, 0), Weights(0, 1), Weights(0.1, 0.9), weigh(0.7, 0.3)),
        (weigh(0.5, 0.6), weigh(1.5, -0.5), weigh(float("nan"), 1), weigh(0.7, 0.3 + 2e-9)),
    ),
    "role": ((None, "pm", "dev", "qa", "all"), ("", "boss")),
    "tags": ((None, ["a"], ["x" * 100] * 100), ([], [""], ["x" * 101], ["a"] * 101, [NUL], [SURROGATE])),
    "tags_match": (("any", "all"), ("", "none")),
    "entry_type": ((None, "fact", ["fact", "chunk"]), ([], "Fact", ["fact", "x"], "")),
    "min_confidence": ((None, 0, 1), (-0.1, 1.1, float("nan"))),
    "scope": ((None, "global", "project"), ("", "x")),
    "source": ((None, "entry", "asset"), ("", "x")),
    "asset_id": ((None, [ID] * 1_000, [str(ID)]), ([], [ID] * 1_001)),
    "metadata": ((None, {}, {"a": {"b": [1]}}), ({"a": NUL}, {1: 2}, {"a": SURROGATE}, {"a": "x" * 70_000})),
    "include_superseded": ((True, False), ()),
    "boost": (((), ["type"], ["type", "access", "verified"]), (["x"], ["type", ""])),
    "fusion": ((None, "rrf", "score"), ("", "x")),
    "rrf_k": ((1, 60, 1_000), (0, -1, 1_001)),
    "ef_search": ((None, 10, 200), (9, 201)),
    "query_embedding": (
        (None, [0.0] * 15 + [1.0], [-1e30] * 16),
        ([0.0] * 16, [float("nan")] * 16, [float("inf")] * 16, []),
    ),
    "filter": ((None, {"field": "metadata.a", "eq": 1}), ({"a": 1},)),
    **dict.fromkeys(
        ("created_after", "created_before", "updated_after", "updated_before"),
        ((None, datetime(2030, 1, 1, tzinfo=UTC)), (datetime(2030, 1, 1),)),  # noqa: DTZ001
    ),
    "as_of": ((None,), (datetime(2020, 1, 1),)),  # noqa: DTZ001
    "group_by": ((None, "asset"), ("", "entry")),
    "facets": (((), ["tags"], ["metadata.a", "roles"]), (["colour"],)),
    "rerank": ((None, False), ()),
    "diversity": ((0, 0.5, 1), (-0.1, 1.1, float("nan"))),
    "explain": ((True, False), ()),
    "cursor": ((None,), ()),
}


def test_every_field_of_a_search_is_in_the_table() -> None:
    assert set(SEARCH_FIELDS) == {field.name for field in fields(SearchQuery)}


async def test_search_fields_allow_their_ranges(services: Services, tenant: Tenant) -> None:
    for name, (allowed, _) in SEARCH_FIELDS.items():
        for value in allowed:
            query = SearchQuery(**{"query": "x", name: value})
            assert len(await services.search.search(tenant.id, query)) == 0, name


@pytest.mark.parametrize("name", SEARCH_FIELDS)
def test_search_field_refuses_values_outside_its_range_by_name(name: str) -> None:
    for value in SEARCH_FIELDS[name][1]:
        with pytest.raises(InvalidInput) as caught:
            SearchQuery(**{"query": "x", name: value})
        assert {e.field.partition(".")[0] for e in caught.value.errors} == {name}, value


MISTYPED: dict[str, tuple[Any, ...]] = {
    "query": (5, None, b"x", ["x"]),
    "mode": (5, None, ["hybrid"]),
    "limit": ("5", 5.5, True, float("nan")),
    "similarity_threshold": ("0.5", [0.5], True),
    "weights": ((0.7, 0.3), weigh("0.7", "0.3")),
    "role": (5, ["dev"]),
    "tags": ("abc", b"abc", 5, [1], {"a": 1}, [None]),
    "entry_type": (5, [["fact"]], {"fact": 1}),
    "min_confidence": ("0.5",),
    "asset_id": (str(ID), ID, ["x"], 5),
    "metadata": ("abc", 5, [1]),
    "include_superseded": (1, None, "no"),
    "boost": ("type", None, 5, [["type"]]),
    "rrf_k": ("60", 60.5, None),
    "ef_search": ("64", 64.5),
    "query_embedding": ("abc", 5, ["1.0"] * 16, [None] * 16, [[1.0]] * 16),
    "explain": (1, None, "no"),
    "diversity": ("0.5", None),
    "cursor": (5, b"x"),
}


@pytest.mark.parametrize("name", MISTYPED)
def test_search_field_refuses_another_type_by_name(name: str) -> None:
    for value in MISTYPED[name]:
        with pytest.raises(InvalidInput) as caught:
            SearchQuery(**{"query": "x", name: value})
        assert {e.field.partition(".")[0] for e in caught.value.errors} == {name}, value


def test_search_fields_accept_numpy_values() -> None:
    made: dict[str, Any] = {
        "limit": np.int64(3),
        "similarity_threshold": np.float32(0.5),
        "query_embedding": np.ones(16, dtype=np.float32),
    }
    assert SearchQuery(query="x", **made).limit == 3


def test_lower_maximum_limit_of_the_caller_applies() -> None:
    with most_hits(50), pytest.raises(InvalidInput, match="between 1 and 50"):
        SearchQuery(query="x", limit=51)


async def test_query_embedding_of_another_length_is_refused(services: Services, tenant: Tenant) -> None:
    for length in (1, 15, 17, 384):
        with pytest.raises(InvalidInput, match="query_embedding: must have 16 numbers"):
            await services.search.search(tenant.id, SearchQuery(query="x", query_embedding=[1.0] * length))


ODD_QUERIES = [
    "the and of " * 900, "?!., " * 2_000, "boat " * 2_000, "'", "\\", "a' | 'b", "<->", ":*", "%", "e\u0301", "😀",
    "'; drop table entries; --", "boat:* & !harbour",
]  # fmt: skip


async def test_unusual_queries_are_answered(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    await services.entries.create(tenant.id, EntryDraft(content="The boat lies in the harbour."))
    failing_provider.down = True
    for query in ODD_QUERIES:
        found = await services.search.search(tenant.id, SearchQuery(query=query))
        assert len(found) == (1 if "boat" in query else 0), query
