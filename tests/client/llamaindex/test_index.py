"""An index over the vector store, as LlamaIndex's guides build it, and the retriever."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="`make test-llamaindex` installs LlamaIndex")

from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from knowledge_client import AsyncKnowledgeClient, InvalidInput, KnowledgeClient
from knowledge_client.llamaindex import KnowledgeRetriever, KnowledgeVectorStore

DOCUMENTS = [
    Document(id_="hours", text="The harbour opens at six.", metadata={"topic": "time"}),
    Document(id_="berths", text="The quay has nine berths.", metadata={"topic": "place"}),
]
FEW = MetadataFilters(filters=[MetadataFilter(key="topic", value="place")])


@pytest.fixture
def store(client: KnowledgeClient) -> KnowledgeVectorStore:
    return KnowledgeVectorStore(client)


@pytest.fixture
def index(store: KnowledgeVectorStore) -> VectorStoreIndex:
    """An index of two documents; the service embeds them."""
    storage = StorageContext.from_defaults(vector_store=store)
    return VectorStoreIndex.from_documents(
        DOCUMENTS, storage_context=storage, embed_model=MockEmbedding(1), transformations=[SentenceSplitter()]
    )


def documents_of(found: Sequence[NodeWithScore]) -> list[str | None]:
    return [one.node.ref_doc_id for one in found]


def test_an_index_finds_documents_filters_and_answers(index: VectorStoreIndex) -> None:
    retriever = index.as_retriever(similarity_top_k=2)
    found = retriever.retrieve("how many ships fit at the quay")
    assert documents_of(found) == ["berths", "hours"]
    assert found[0].score is not None
    assert found[0].score > 0.3
    assert documents_of(index.as_retriever(filters=FEW).retrieve("when does it open")) == ["berths"]
    for mode in ("hybrid", "sparse", "mmr"):
        assert "berths" in documents_of(index.as_retriever(vector_store_query_mode=mode).retrieve("nine berths"))
    answer = index.as_query_engine(llm=MockLLM()).query("how many ships fit at the quay")
    assert answer.source_nodes[0].node.ref_doc_id == "berths"


async def test_an_index_works_in_a_loop(index: VectorStoreIndex) -> None:
    retriever = index.as_retriever(similarity_top_k=1)
    assert documents_of(await retriever.aretrieve("when does the harbour open")) == ["hours"]
    await index.ainsert(Document(id_="tide", text="High tide is at noon."))
    assert documents_of(await retriever.aretrieve("when is the water highest")) == ["tide"]
    await index.adelete_ref_doc("tide")
    assert "tide" not in documents_of(await retriever.aretrieve("when is the water highest"))


def test_documents_and_nodes_are_inserted_updated_and_deleted(
    index: VectorStoreIndex, store: KnowledgeVectorStore
) -> None:
    index.update_ref_doc(Document(id_="hours", text="The harbour opens at seven."))
    texts = {node.ref_doc_id: node.get_content() for node in store.get_nodes()}
    assert texts == {"hours": "The harbour opens at seven.", "berths": "The quay has nine berths."}
    (node,) = store.get_nodes(filters=FEW)
    index.delete_nodes([node.node_id])
    index.delete_ref_doc("hours")
    assert store.get_nodes() == []


def test_an_index_is_opened_again_from_its_store(
    index: VectorStoreIndex, client: KnowledgeClient, tmp_path: Path
) -> None:
    question = "how many ships fit at the quay"
    again = VectorStoreIndex.from_vector_store(KnowledgeVectorStore(client), embed_model=MockEmbedding(1))
    assert documents_of(again.as_retriever(similarity_top_k=1).retrieve(question)) == ["berths"]
    index.storage_context.persist(str(tmp_path))
    storage = StorageContext.from_defaults(vector_store=KnowledgeVectorStore(client), persist_dir=str(tmp_path))
    loaded = load_index_from_storage(storage, embed_model=MockEmbedding(1))
    assert documents_of(loaded.as_retriever(similarity_top_k=1).retrieve(question)) == ["berths"]


def test_a_pipeline_writes_to_the_store(store: KnowledgeVectorStore) -> None:
    text = " ".join(f"Berth {n} of the harbour is reserved for ship {n}." for n in range(60))
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(chunk_size=128, chunk_overlap=0), MockEmbedding(1)], vector_store=store
    )
    made = pipeline.run(documents=[Document(id_="list", text=text)])
    stored = {node.node_id: node for node in store.get_nodes()}
    assert len(made) > 3
    assert {node.node_id: node.get_content() for node in made} == {
        node_id: node.get_content() for node_id, node in stored.items()
    }
    assert all(node.relationships == stored[node.node_id].relationships for node in made)


class TestRetriever:
    """The service's own search over everything in the tenant."""

    @pytest.fixture(autouse=True)
    def knowledge(self, client: KnowledgeClient) -> None:
        """Two entries with metadata."""
        client.create_entry("The harbour opens at six.", title="Hours", metadata={"topic": "time"})
        client.create_entry("The quay has nine berths.", title="Berths", metadata={"topic": "place"})

    def test_found_nodes_name_their_source(self, client: KnowledgeClient) -> None:
        (found,) = KnowledgeRetriever(client, similarity_top_k=1).retrieve("when does the harbour open")
        assert found.node.get_content() == "The harbour opens at six."
        assert found.node.metadata["source"] == found.node.metadata["title"] == "Hours"
        prompt = found.node.get_content(metadata_mode=MetadataMode.LLM)
        assert "source: Hours" in prompt
        assert "search_id" not in prompt
        given = client.give_feedback(found.node.metadata["search_id"], found.node.metadata["entry_id"], relevant=True)
        assert given.relevant
        assert found.score == found.node.metadata["score"]

    async def test_filters_and_options_apply_in_both_ways(
        self, client: KnowledgeClient, async_client: AsyncKnowledgeClient
    ) -> None:
        options: Any = {"mode": "semantic", "similarity_threshold": 0.0}
        retriever = KnowledgeRetriever(client, async_client, filters=FEW, options=options)
        for found in (retriever.retrieve("harbour"), await retriever.aretrieve("harbour")):
            assert [one.metadata["title"] for one in found] == ["Berths"]
        in_thread = KnowledgeRetriever(client, similarity_top_k=1)
        assert len(await in_thread.aretrieve("harbour")) == 1
        also: Any = {**options, "filter": {"field": "title", "eq": "Hours"}}
        assert KnowledgeRetriever(client, filters=FEW, options=also).retrieve("harbour") == []
        refused: Any = {"colour": "blue"}
        with pytest.raises(InvalidInput, match="colour"):
            KnowledgeRetriever(client, options=refused).retrieve("harbour")

    def test_a_vector_of_the_query_is_used(self, client: KnowledgeClient) -> None:
        with pytest.raises(InvalidInput, match="384"):
            KnowledgeRetriever(client).retrieve(QueryBundle("harbour", embedding=[1.0]))
