"""LangChain's filters: every operator is translated, or refused by name; test_conditions compares with the service."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

from knowledge_client import InvalidInput, KnowledgeClient
from knowledge_client.conditions import holds
from knowledge_client.langchain import FilterUnsupported, KnowledgeVectorStore
from knowledge_client.langchain.filters import OPERATORS, read_filter

METADATA: dict[str, dict[str, Any]] = {
    "a": {"year": 2019, "team": "search", "labels": ["red", "blue"]},
    "b": {"year": 2021, "team": "ops", "at": {"city": "Oslo", "floor": 2}},
    "c": {"year": 2023, "a.b": 1},
    "d": {"year": None},
}
TRANSLATED: list[tuple[dict[str, Any], str]] = [
    ({"year": 2021}, "b"),
    ({"team": "search", "year": 2019}, "a"),
    ({"at": {"city": "Oslo", "floor": {"$gt": 1}}}, "b"),
    ({"labels": ["red", "blue"]}, "a"),
    ({"a.b": 1}, "c"),
    ({"year": {"$eq": 2021}}, "b"),
    ({"year": {"$eq": None}}, "d"),
    ({"year": {"$ne": 2021}}, "acd"),
    ({"year": {"$gt": 2021}}, "c"),
    ({"year": {"$gte": 2021}}, "bc"),
    ({"year": {"$lt": 2021}}, "a"),
    ({"year": {"$lte": 2021}}, "ab"),
    ({"year": {"$gt": 2019, "$lt": 2023}}, "b"),
    ({"team": {"$in": ["search", "x"]}}, "a"),
    ({"team": {"$in": ("search", "ops")}}, "ab"),
    ({"team": {"$nin": ["search"]}}, "bcd"),
    ({"team": {"$exists": True}}, "ab"),
    ({"year": {"$exists": False}}, "d"),
    ({"$and": [{"year": {"$gte": 2019}}, {"team": "ops"}]}, "b"),
    ({"$or": [{"year": 2019}, {"team": "ops"}]}, "ab"),
    ({"$not": {"$or": [{"year": 2019}, {"team": "ops"}]}}, "cd"),
    ({"year": {"$not": {"$in": [2019, 2021]}}}, "cd"),
    ({"year": {"$or": [{"$lt": 2020}, {"$gt": 2022}]}}, "ac"),
]
REFUSED = ("$like", "$ilike", "$between", "$regex", "$contains", "$nor", "$all", "$elemMatch")


def test_every_operator_is_tested() -> None:
    tested = str([given for given, _ in TRANSLATED])
    for operator in (*OPERATORS, "$nin", "$and", "$or", "$not"):
        assert f"'{operator}'" in tested


@pytest.mark.parametrize(("given", "wanted"), TRANSLATED, ids=[str(given) for given, _ in TRANSLATED])
def test_a_filter_finds_what_it_says(given: dict[str, Any], wanted: str) -> None:
    condition = read_filter(given)
    assert condition is not None
    assert {name for name, metadata in METADATA.items() if holds(condition, metadata)} == set(wanted)


@pytest.mark.parametrize("operator", REFUSED)
def test_an_unknown_operator_is_refused_by_name(operator: str) -> None:
    for given in ({"team": {operator: "x"}}, {operator: [{"team": "x"}]}, {"$and": [{"t": {operator: 1}}]}):
        with pytest.raises(FilterUnsupported, match=rf"^filter: \{operator} is not supported here; use plain"):
            read_filter(given)


def test_the_service_accepts_every_translation_and_names_wrong_values(client: KnowledgeClient) -> None:
    searches: list[Any] = [{"query": "x", "filter": read_filter(given)} for given, _ in TRANSLATED]
    assert [outcome.error for outcome in client.search_batch(searches)] == [None] * len(searches)
    store = KnowledgeVectorStore(client)
    wrong: tuple[dict[str, Any], ...]
    wrong = ({"year": {"$in": []}}, {"year": {"$in": "x"}}, {"year": {"$exists": 1}}, {"year": {"$gt": True}})
    for given in wrong:
        with pytest.raises(InvalidInput, match=r"filter\.(in|exists|gt)"):
            store.similarity_search("x", filter=given)
