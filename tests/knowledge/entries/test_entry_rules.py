"""The range of each field of an entry and of a search, to its bounds."""

from dataclasses import MISSING, fields
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from pydantic import TypeAdapter

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import DEFAULTS, FIELDS, EntryDraft, NewEntry
from app.contract.search import SearchQuery, Weights, most_hits
from app.contract.validation import validate
from app.db.principals import acting_for_service
from app.errors import InvalidInput
from tests.fixtures.providers.failing import FailingProvider

pytestmark = pytest.mark.own_tenants

MARKS = "\u0301" * 30
ID = uuid4()

# For each field of an entry: allowed values at the bounds. Golden files have those that are refused.
PRINCIPALS: tuple[Any, ...] = (
    *(None, ["group:a"], ["group:/a/b c", "user:ü@x"], [f"user:{n:03}" for n in range(64)], ["group:" + "x" * 258]),
)
ENTRY_FIELDS: dict[str, tuple[Any, ...]] = {
    "content": ("x", "ü" * 100_000, " x ", MARKS),
    "title": ("x", "x" * 1_000, None, MARKS),
    "entry_type": ("fact", "summary", "template", "decision", "lesson", "temp_note", "insight"),
    "tags": ([], ["a"], ("a", "b"), ["x" * 100], [str(n) for n in range(50)]),
    "roles": (["all"], ["pm", "dev", "qa"]),
    "confidence": (0, 1, 0.5),
    "scope": ("global", "project"),
    "parent_id": (ID, str(ID), None),
    "source_ids": ([], [ID], [str(ID)], [uuid4() for _ in range(100)]),
    "superseded_by_id": (ID, str(ID), None),
    "is_verified": (True, False),
    "metadata": ({}, {"a": [1, {"b": None}]}, {"k": "x" * 65_000}),
    "language": ("english", "german", "simple", None),
    "expires_at": (datetime(2030, 1, 1, tzinfo=UTC), None),
    "external_id": ("x", "x" * 512, None),
    "readers": PRINCIPALS,
    "writers": PRINCIPALS,
}


CLEARED = {name for name, allowed in ENTRY_FIELDS.items() if None in allowed}
"""Fields that can be empty, and that null in a patch clears."""


def test_every_field_of_an_entry_is_in_the_table() -> None:
    assert set(ENTRY_FIELDS) == set(FIELDS) == {"content", *DEFAULTS.given()}


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        (EntryDraft, "content", (b"x",)),
        (EntryDraft, "metadata", ({1: 2}, {"k": {1}})),
        (EntryDraft, "expires_at", (datetime.fromisoformat("2030-01-01"),)),
        (SearchQuery, "query", (b"x",)),
        (SearchQuery, "limit", (0, 101)),
        (SearchQuery, "weights", ((0.7, 0.3),)),
        (SearchQuery, "tags", (b"abc",)),
        (SearchQuery, "asset_id", (ID,)),
        (SearchQuery, "metadata", ({1: 2},)),
        (SearchQuery, "created_after", (datetime.fromisoformat("2030-01-01"),)),
        (SearchQuery, "as_of", (datetime.fromisoformat("2020-01-01"),)),
        (SearchQuery, "cursor", (b"x",)),
    ],
)
def test_values_that_json_or_http_cannot_have_are_refused_by_name(kind: Any, name: str, values: Any) -> None:
    for value in values:
        with pytest.raises(InvalidInput) as caught:
            validate(kind, {"query" if kind is SearchQuery else "content": "x", name: value})
        assert {error.field.partition(".")[0] for error in caught.value.errors} == {name}, value


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
    for name, allowed in ENTRY_FIELDS.items():
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
    for values in ({"content": "a\x00b"}, {"content": "a\ud800b"}, {}, {"title": "alone"}, {"content": "x", "tags": 1}):
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


# For each field of a search: allowed values.
SEARCH_FIELDS: dict[str, tuple[Any, ...]] = {
    "query": ("x", "x" * 10_000, "  " + "x" * 10_000 + "  "),
    "mode": ("hybrid", "semantic", "keyword"),
    "limit": (1, 100),
    "similarity_threshold": (None, 0, 1, 0.5),
    "weights": (None, Weights(1, 0), Weights(0, 1), Weights(0.1, 0.9), {"semantic": 0.7, "keyword": 0.3}),
    "role": (None, "pm", "dev", "qa", "all"),
    "tags": (None, ["a"], ["x" * 100] * 100),
    "tags_match": ("any", "all"),
    "entry_type": (None, "fact", ["fact", "chunk"]),
    "min_confidence": (None, 0, 1),
    "scope": (None, "global", "project"),
    "source": (None, "entry", "asset"),
    "asset_id": (None, [ID] * 1_000, [str(ID)]),
    "metadata": (None, {}, {"a": {"b": [1]}}),
    "include_superseded": (True, False),
    "boost": ((), ["type"], ["type", "access", "verified", "recent"]),
    "recent_half_life_days": (0.1, 30, 36_500),
    "fusion": (None, "rrf", "score"),
    "rrf_k": (1, 60, 1_000),
    "ef_search": (None, 10, 1_000),
    "query_embedding": (None, [0.0] * 15 + [1.0], [-1e30] * 16),
    "filter": (None, {"field": "metadata.a", "eq": 1}),
    **dict.fromkeys(
        ("created_after", "created_before", "updated_after", "updated_before"), (None, datetime(2030, 1, 1, tzinfo=UTC))
    ),
    "as_of": (None,),
    "group_by": (None, "asset"),
    "duplicates": ("fold", "show"),
    "facets": ((), ["tags"], ["metadata.a", "roles"]),
    "rerank": (None, False),
    "diversity": (0, 0.5, 1),
    "explain": (True, False),
    "cursor": (None,),
}


def test_every_field_of_a_search_is_in_the_table() -> None:
    assert set(SEARCH_FIELDS) == {field.name for field in fields(SearchQuery)}


async def test_search_fields_allow_their_ranges(services: Services, tenant: Tenant) -> None:
    for name, allowed in SEARCH_FIELDS.items():
        for value in allowed:
            query = SearchQuery(**{"query": "x", name: value})
            assert len(await services.search.search(tenant.id, query)) == 0, name


OPTIONAL_FIELDS = [
    (kind, {"query" if kind is SearchQuery else "content": "x"}, field.name)
    for kind in (SearchQuery, NewEntry, EntryDraft)
    for field in fields(kind)
    if field.default is not MISSING
]


@pytest.mark.parametrize(("kind", "others", "name"), OPTIONAL_FIELDS)
def test_null_means_omitted_unless_a_patch_clears_the_field(kind: type, others: dict[str, str], name: str) -> None:
    rest = {field: value for field, value in others.items() if field != name}
    clears = kind is EntryDraft and name in CLEARED
    assert getattr(validate(kind, rest | {name: None}), name) is (None if clears else getattr(kind(**rest), name))
    described = TypeAdapter(kind).json_schema()["properties"][name]
    assert {"type": "null"} in described["anyOf"]


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
