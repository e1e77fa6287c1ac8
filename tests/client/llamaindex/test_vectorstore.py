"""The vector store for LlamaIndex, and its filters."""

import inspect
from typing import Any

import pytest
from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    SimpleVectorStore,
    VectorStoreQuery,
)
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQueryMode

from knowledge_client import AsyncKnowledgeClient, InvalidInput, KnowledgeClient
from knowledge_client.llamaindex import DocumentsRefused, FilterUnsupported, KnowledgeVectorStore, ModeUnsupported

pytest.importorskip("llama_index.core", reason="`make test-llamaindex` installs LlamaIndex")


TEXTS = {"1": "harbour at six", "2": "harbour at six!", "3": "a bicycle"}
SUPPORTED = {
    VectorStoreQueryMode.DEFAULT,
    VectorStoreQueryMode.MMR,
    VectorStoreQueryMode.SPARSE,
    VectorStoreQueryMode.TEXT_SEARCH,
    VectorStoreQueryMode.HYBRID,
}


class Caller:
    """Calls the methods of a store, blocking or async, by the blocking names."""

    def __init__(self, store: KnowledgeVectorStore, kind: str) -> None:
        self.store = store
        self._kind = kind

    async def __call__(self, method: str, *args: Any, **options: Any) -> Any:
        name = method if self._kind == "sync" else "async_add" if method == "add" else f"a{method}"
        outcome = getattr(self.store, name)(*args, **options)
        return await outcome if inspect.isawaitable(outcome) else outcome

    async def find(self, text: str | None, k: int = 9, **options: Any) -> list[str]:
        """The ids that a query finds."""
        query = VectorStoreQuery(query_str=text, similarity_top_k=k, **options)
        return list((await self("query", query)).ids)


@pytest.fixture
def call(client: KnowledgeClient, async_client: AsyncKnowledgeClient, kind: str) -> Caller:
    """A store without tags; the async methods have only the async client."""
    if kind == "sync":
        return Caller(KnowledgeVectorStore(client), kind)
    return Caller(KnowledgeVectorStore(async_client=async_client), kind)


def nodes_of(texts: dict[str, str], document: str | None = None) -> list[BaseNode]:
    """A node for each text, by its id, of one document."""
    links = {} if document is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)}
    return [TextNode(id_=node_id, text=text, relationships=links) for node_id, text in texts.items()]


async def test_nodes_of_every_kind_come_back_as_they_were(call: Caller) -> None:
    nodes = [
        TextNode(
            id_="text",
            text="  The quay\n\nhas nine berths. \n",
            metadata={"page": 3, "labels": ["a"], "nested": {"x": None}, "when": "2026-01-01"},
            excluded_llm_metadata_keys=["page"],
            relationships={
                NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc"),
                NodeRelationship.NEXT: RelatedNodeInfo(node_id="index"),
            },
            start_char_idx=5,
            end_char_idx=40,
            metadata_template="{key}: {value}",
        ),
        IndexNode(id_="index", text="summary of the harbour", index_id="other"),
        ImageNode(id_="image", text="a picture of the quay", image_url="https://example.com/quay.png"),
        Node(id_="node", text_resource=MediaResource(text="a node with a resource")),
    ]
    assert await call("add", nodes) == ["text", "index", "image", "node"]
    found = await call(
        "query", VectorStoreQuery(query_str="quay, harbour, picture, node, resource", similarity_top_k=9)
    )
    assert {node.node_id: node for node in found.nodes} == {node.node_id: node for node in nodes}
    assert await call("get_nodes", ["node", "absent", "text"]) == [nodes[3], nodes[0]]
    assert {node.node_id for node in await call("get_nodes")} == {"text", "index", "image", "node"}


async def test_adding_again_replaces(call: Caller) -> None:
    await call("add", nodes_of({"1": "harbour"}))
    await call("add", [TextNode(id_="1", text="bicycle", metadata={"n": 1})])
    (node,) = await call("get_nodes")
    assert (node.get_content(), node.metadata) == ("bicycle", {"n": 1})


async def test_modes_search_by_meaning_by_words_and_by_both(call: Caller) -> None:
    await call("add", nodes_of(TEXTS))
    found = await call("query", VectorStoreQuery(query_str="harbour at six", similarity_top_k=2))
    assert found.ids == ["1", "2"]
    assert 0.99 < found.similarities[0] <= 1.0
    assert found.similarities[1] < found.similarities[0]
    for words in (VectorStoreQueryMode.SPARSE, VectorStoreQueryMode.TEXT_SEARCH):
        found = await call("query", VectorStoreQuery(query_str="bicycle", similarity_top_k=9, mode=words))
        assert found.ids == ["3"]
        assert found.similarities[0] > 0
    hybrid = VectorStoreQueryMode.HYBRID
    assert (await call.find("harbour", mode=hybrid, alpha=1.0))[:2] != []
    assert (await call.find("bicycle", mode=hybrid, alpha=0.0))[0] == "3"
    assert len(await call.find("bicycle", mode=hybrid, hybrid_top_k=1)) == 1
    diverse = VectorStoreQueryMode.MMR
    assert "3" in await call.find("harbour at six", 2, mode=diverse, mmr_threshold=0.0)
    assert "3" not in await call.find("harbour at six", 2, mode=diverse, mmr_threshold=1.0)
    query = VectorStoreQuery(query_str="harbour at six", similarity_top_k=2, mode=diverse)
    assert "3" in (await call("query", query, mmr_threshold=0.0)).ids


async def test_modes_that_the_service_lacks_are_refused_by_name(call: Caller) -> None:
    for mode in set(VectorStoreQueryMode) - SUPPORTED:
        with pytest.raises(ModeUnsupported, match=f"mode: {mode.value} is not supported; use default, mmr"):
            await call.find("x", mode=mode)
    for mode in SUPPORTED:
        with pytest.raises(ValueError, match="query_str: "):
            await call.find(None, mode=mode)


async def test_a_vector_of_the_tenants_model_is_searched(call: Caller) -> None:
    await call("add", nodes_of(TEXTS))
    assert len(await call.find(None, query_embedding=[1.0] * 384)) <= 3
    with pytest.raises(InvalidInput, match="384"):
        await call.find(None, query_embedding=[1.0])


async def test_ids_of_nodes_and_documents_constrain_a_query(call: Caller) -> None:
    await call("add", [*nodes_of(TEXTS, "doc"), *nodes_of({"4": "harbour at seven"}, "other")])
    assert set(await call.find("harbour", node_ids=["1", "3", "absent"])) == {"1", "3"}
    assert set(await call.find("harbour", node_ids=[], doc_ids=[])) == {"1", "2", "3", "4"}
    assert await call.find("harbour", doc_ids=["other"]) == ["4"]
    assert await call.find("harbour", doc_ids=["other"], node_ids=["1"]) == []


async def test_search_options_are_passed_on(call: Caller) -> None:
    await call("add", nodes_of(TEXTS))
    query = VectorStoreQuery(query_str="harbour at six", similarity_top_k=9)
    assert (await call("query", query, similarity_threshold=0.99)).ids == ["1"]
    only = {"field": "external_id", "eq": "3"}
    assert (await call("query", query, filter=only)).ids == ["3"]
    with pytest.raises(InvalidInput, match="colour"):
        await call("query", query, colour="blue")


async def test_a_document_and_its_nodes_are_deleted(call: Caller) -> None:
    await call("add", [*nodes_of(TEXTS, "doc"), *nodes_of({"4": "harbour at seven"}, "other")])
    await call("delete", "doc")
    await call("delete", "absent")
    assert [node.node_id for node in await call("get_nodes")] == ["4"]


async def test_nodes_are_deleted_by_ids_and_filters(call: Caller) -> None:
    texts = {str(n): f"berth {n}" for n in range(6)}
    nodes = nodes_of(texts)
    for n, node in enumerate(nodes):
        node.metadata["n"] = n
    await call("add", nodes)
    low = MetadataFilters(filters=[MetadataFilter(key="n", value=3, operator=FilterOperator.LT)])
    await call("delete_nodes", ["0", "5", "absent"], low)
    assert {node.node_id for node in await call("get_nodes")} == {"1", "2", "3", "4", "5"}
    await call("delete_nodes", filters=low)
    assert {node.node_id for node in await call("get_nodes")} == {"3", "4", "5"}
    await call("delete_nodes", ["3", "3"])
    with pytest.raises(ValueError, match="ids or filters are required"):
        await call("delete_nodes")
    assert {node.node_id for node in await call("get_nodes")} == {"4", "5"}


async def test_clearing_leaves_entries_that_no_store_wrote(call: Caller, client: KnowledgeClient) -> None:
    client.create_entry("The harbour opens at six.", external_id="hours")
    await call("add", nodes_of(TEXTS))
    await call("clear")
    assert [node.node_id for node in await call("get_nodes")] == ["hours"]
    await call("delete_nodes", ["hours"])
    assert await call("get_nodes") == []


async def test_stores_with_different_tags_see_their_own(client: KnowledgeClient) -> None:
    first, second = (KnowledgeVectorStore(client, tags=["notes", tag]) for tag in ("first", "second"))
    first.add(nodes_of({"1": "number one"}, "doc"))
    second.add(nodes_of({"2": "number two"}, "doc"))
    query = VectorStoreQuery(query_str="number", similarity_top_k=9)
    assert first.query(query).ids == ["1"]
    assert first.get_nodes(["1", "2"]) == first.get_nodes()
    first.delete_nodes(["2"])
    first.delete("doc")
    assert first.get_nodes() == []
    second.clear()
    assert second.get_nodes() == []


async def test_entries_of_other_sources_are_nodes_too(client: KnowledgeClient) -> None:
    asset = client.upload_asset(b"the quay has nine berths", name="quay.txt")
    client.wait_until_indexed(asset)
    store = KnowledgeVectorStore(client)
    found = store.query(VectorStoreQuery(query_str="berths", similarity_top_k=9, doc_ids=[str(asset.id)]))
    assert found.nodes is not None
    (node,) = found.nodes
    assert node.ref_doc_id == str(asset.id)
    assert (node.start_char_idx, node.get_content()) == (0, "the quay has nine berths")
    assert store.query(VectorStoreQuery(query_str="berths", node_ids=[node.node_id])).ids == [node.node_id]
    with pytest.raises(ValueError, match="is an uploaded file; delete it with delete_asset"):
        store.delete(str(asset.id))


def test_refused_nodes_are_named_and_the_others_stored(client: KnowledgeClient) -> None:
    store = KnowledgeVectorStore(client)
    with pytest.raises(DocumentsRefused, match="number 1"):
        store.add(nodes_of({"1": "kept", "2": ""}))
    assert [node.node_id for node in store.get_nodes()] == ["1"]
    with pytest.raises(ValueError, match="the key _node of node 3 is reserved"):
        store.add([TextNode(id_="3", text="x", metadata={"_node": 1})])


async def test_a_client_of_the_other_kind_is_named_or_run_in_a_thread(
    client: KnowledgeClient, async_client: AsyncKnowledgeClient
) -> None:
    with pytest.raises(ValueError, match="only an async_client"):
        KnowledgeVectorStore(async_client=async_client).get_nodes()
    store = KnowledgeVectorStore(client)
    assert await store.async_add(nodes_of({"1": "harbour"})) == ["1"]
    assert (store.client, KnowledgeVectorStore(async_client=async_client).client) == (client, async_client)


def test_every_method_of_a_vector_store_is_its_own() -> None:
    inherited = {"persist"}  # nothing to do: the service keeps the nodes
    for name, _ in inspect.getmembers(BasePydanticVectorStore, inspect.isfunction):
        if name in vars(BasePydanticVectorStore):
            assert name in vars(KnowledgeVectorStore) or name in inherited, name


async def test_nodes_have_the_readers_of_the_store_or_of_the_call(
    client: KnowledgeClient, async_client: AsyncKnowledgeClient, kind: str
) -> None:
    readers = ["group:port", "user:ada"]
    clients: dict[str, Any] = {"client": client} if kind == "sync" else {"async_client": async_client}
    call = Caller(KnowledgeVectorStore(**clients, readers=readers), kind)
    await call("add", nodes_of({"1": "harbour"}))
    await call("add", nodes_of({"2": "quay"}), readers=["user:ada"], writers=["user:ada"])
    kept = [client.find_entry(number) for number in "12"]
    assert [entry and (entry.readers, entry.writers) for entry in kept] == [
        (readers, None),
        (["user:ada"], ["user:ada"]),
    ]


pytest.importorskip("llama_index.core", reason="`make test-llamaindex` installs LlamaIndex")


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
