"""The vector store by itself: what it stores, finds, lists and deletes."""

import inspect
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="`make test-llamaindex` installs LlamaIndex")

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
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters, VectorStoreQuery
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQueryMode

from knowledge_client import AsyncKnowledgeClient, InvalidInput, KnowledgeClient
from knowledge_client.llamaindex import DocumentsRefused, KnowledgeVectorStore, ModeUnsupported

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
