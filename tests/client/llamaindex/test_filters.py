"""Filters: every operator finds what LlamaIndex's own store in memory finds, or is refused by name."""

from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="`make test-llamaindex` installs LlamaIndex")

from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    SimpleVectorStore,
    VectorStoreQuery,
)

from knowledge_client import KnowledgeClient
from knowledge_client.llamaindex import FilterUnsupported, KnowledgeVectorStore

METADATA: dict[str, dict[str, Any]] = {
    "a": {"year": 2019, "team": "search", "note": "x.y"},
    "b": {"year": 2021, "team": "ops", "labels": ["red", "blue"]},
    "c": {"year": 2023.5, "team": "Search", "labels": ["red"]},
    "d": {"year": 2021, "labels": [], "a.b": "dotted"},
    "e": {"team": "", "sizes": [1, 2]},
    "f": {"team": None},
}
REFUSED = {FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE}
FILTERS = [
    MetadataFilter(key=key, value=value, operator=operator)
    for operator, key, value in (
        (FilterOperator.EQ, "team", "search"),
        (FilterOperator.EQ, "year", 2021),
        (FilterOperator.EQ, "a.b", "dotted"),
        (FilterOperator.EQ, "doc_id", "absent"),
        (FilterOperator.NE, "team", "search"),
        (FilterOperator.NE, "year", 2021),
        (FilterOperator.GT, "year", 2021),
        (FilterOperator.GTE, "year", 2021),
        (FilterOperator.LT, "year", 2021),
        (FilterOperator.LTE, "year", 2021),
        (FilterOperator.IN, "team", ["search", "ops"]),
        (FilterOperator.IN, "year", [2019, 2021]),
        (FilterOperator.NIN, "team", ["search", "ops"]),
        (FilterOperator.ANY, "labels", ["blue", "green"]),
        (FilterOperator.ALL, "labels", ["red", "blue"]),
        (FilterOperator.CONTAINS, "labels", "red"),
        (FilterOperator.CONTAINS, "sizes", 2),
        (FilterOperator.IS_EMPTY, "labels", None),
        (FilterOperator.IS_EMPTY, "team", None),
    )
]
NODES = [TextNode(id_=n, text=f"harbour {n}", metadata=m, embedding=[1.0]) for n, m in METADATA.items()]


@pytest.fixture
def store(client: KnowledgeClient) -> KnowledgeVectorStore:
    store = KnowledgeVectorStore(client)
    store.add(NODES)
    return store


@pytest.fixture(scope="module")
def reference() -> SimpleVectorStore:
    """LlamaIndex's store in memory, with the same nodes."""
    reference = SimpleVectorStore()
    reference.add(NODES)
    return reference


def combine(condition: FilterCondition | None, *filters: Any) -> MetadataFilters:
    return MetadataFilters(filters=list(filters), condition=condition)


def test_every_operator_is_tested_or_refused() -> None:
    assert {one.operator for one in FILTERS} | REFUSED == set(FilterOperator)


def test_filters_find_what_the_store_in_memory_finds(store: KnowledgeVectorStore, reference: SimpleVectorStore) -> None:
    groups = [combine(FilterCondition.AND, one) for one in FILTERS]
    for first, second in zip(FILTERS, FILTERS[3:], strict=False):
        groups += [combine(condition, first, second) for condition in FilterCondition]
    groups += [combine(None, FILTERS[0], FILTERS[1]), combine(FilterCondition.NOT, FILTERS[1])]
    different = []
    for filters in groups:
        query = VectorStoreQuery(query_str="harbour", query_embedding=None, similarity_top_k=50, filters=filters)
        found = set(store.query(query).ids or ())
        listed = {node.node_id for node in store.get_nodes(filters=filters)}
        query.query_embedding = [1.0]
        wanted = set(reference.query(query).ids or ())
        if not found == listed == wanted:
            different.append((filters, found, listed, wanted))
    assert different == []


def test_filters_inside_filters_are_applied(store: KnowledgeVectorStore) -> None:
    inner = combine(FilterCondition.OR, FILTERS[0], FILTERS[1])
    outer = combine(FilterCondition.AND, inner, combine(FilterCondition.NOT, FILTERS[13]))
    assert {node.node_id for node in store.get_nodes(filters=outer)} == {"a", "d"}
    found = store.query(VectorStoreQuery(query_str="harbour", similarity_top_k=9, filters=outer))
    assert set(found.ids or ()) == {"a", "d"}


@pytest.mark.parametrize("operator", list(FilterOperator))
def test_an_operator_without_a_fitting_value_is_refused_by_name(operator: FilterOperator) -> None:
    store = KnowledgeVectorStore()
    unfit = None if operator not in (FilterOperator.EQ, FilterOperator.CONTAINS) else ["red"]
    if operator is FilterOperator.IS_EMPTY:
        return
    filters = combine(None, MetadataFilter(key="team", value=unfit, operator=operator))
    with pytest.raises(FilterUnsupported, match=f"^filters: .*{operator.value}"):
        store.get_nodes(filters=filters)
    with pytest.raises(FilterUnsupported, match=f"^filters: .*{operator.value}"):
        store.query(VectorStoreQuery(query_str="x", filters=filters))


@pytest.mark.parametrize("operator", sorted(REFUSED))
def test_a_match_of_a_part_of_a_text_is_refused_by_name(operator: FilterOperator) -> None:
    filters = combine(None, MetadataFilter(key="team", value="sea", operator=operator))
    with pytest.raises(FilterUnsupported, match=f"^filters: {operator.value} is not supported; use =="):
        KnowledgeVectorStore().delete_nodes(filters=filters)


def test_empty_filters_inside_filters_are_refused() -> None:
    with pytest.raises(FilterUnsupported, match="must not be empty"):
        KnowledgeVectorStore().get_nodes(filters=combine(None, FILTERS[0], combine(None)))
