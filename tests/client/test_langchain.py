"""LangChain."""

from typing import Any, ClassVar

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests

from knowledge_client import AsyncKnowledgeClient, InvalidInput, KnowledgeClient
from knowledge_client.conditions import holds
from knowledge_client.langchain import DocumentsRefused, FilterUnsupported, KnowledgeRetriever, KnowledgeVectorStore
from knowledge_client.langchain.filters import OPERATORS, read_filter

pytest.importorskip("langchain_core", reason="langchain-core is not installed")
pytest.importorskip("langchain_tests", reason="langchain-tests is not installed")


@pytest.fixture
def store(client: KnowledgeClient, async_client: AsyncKnowledgeClient) -> KnowledgeVectorStore:
    return KnowledgeVectorStore(client, async_client)


@pytest.mark.slow
class TestKnowledgeVectorStore(VectorStoreIntegrationTests):
    """All of the standard tests; none is skipped."""

    @pytest.fixture
    def vectorstore(self, store: KnowledgeVectorStore) -> VectorStore:
        return store


class TestKnowledgeRetriever(RetrieversIntegrationTests):
    """All of the standard tests; none is skipped."""

    params: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def knowledge(self, client: KnowledgeClient, async_client: AsyncKnowledgeClient) -> None:
        client.create_entries([{"content": f"harbour berth {n}"} for n in range(4)])
        self.params.update(client=client, async_client=async_client)

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return KnowledgeRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return self.params

    @property
    def retriever_query_example(self) -> str:
        """A query that finds all of them."""
        return "harbour"


def test_retrieved_documents_name_their_source(client: KnowledgeClient) -> None:
    made = client.create_entry("The harbour opens at six.", title="Hours", metadata={"lang": "en"})
    (document,) = KnowledgeRetriever(client=client, k=1).invoke("when does the harbour open")
    assert document.page_content == made.content
    assert document.metadata["lang"] == "en"
    assert document.metadata["source"] == document.metadata["title"] == "Hours"
    assert document.metadata["entry_id"] == str(made.id)
    feedback = client.give_feedback(document.metadata["search_id"], made.id, relevant=True)
    assert feedback.relevant


def test_a_retriever_accepts_search_options(client: KnowledgeClient) -> None:
    client.create_entries([{"content": f"harbour {tag}", "tags": [tag]} for tag in ("a", "b")])
    retriever = KnowledgeRetriever(client=client, options={"mode": "keyword", "tags": ["a"]})
    assert [d.page_content for d in retriever.invoke("harbour")] == ["harbour a"]
    assert [d.page_content for d in retriever.invoke("harbour", tags=["b"])] == ["harbour b"]
    with pytest.raises(InvalidInput, match="colour"):
        retriever.invoke("harbour", colour="blue")


async def test_async_calls_work_in_a_thread_without_an_async_client(client: KnowledgeClient) -> None:
    store = KnowledgeVectorStore(client)
    assert await store.aadd_texts(["harbour"], ids=["1"]) == ["1"]
    assert [d.id for d in await store.asimilarity_search("harbour")] == ["1"]
    assert [d.id for d in await KnowledgeRetriever(client=client).ainvoke("harbour")] == ["1"]


def test_blocking_calls_need_a_blocking_client(async_client: AsyncKnowledgeClient) -> None:
    with pytest.raises(ValueError, match="only an async_client"):
        KnowledgeVectorStore(async_client=async_client).similarity_search("harbour")


@pytest.mark.slow
def test_stores_with_different_tags_see_their_own(client: KnowledgeClient) -> None:
    first = KnowledgeVectorStore.from_texts(["one"], client=client, tags=["first"])
    second = KnowledgeVectorStore.from_texts(["two"], client=client, tags=["second"])
    assert [d.page_content for d in first.similarity_search("number")] == ["one"]
    assert [d.page_content for d in second.similarity_search("number")] == ["two"]


def test_scores_are_cosines_and_metadata_filter(store: KnowledgeVectorStore) -> None:
    store.add_texts(["harbour", "a ship"], [{"n": 1}, {"n": 2}], ids=["1", "2"])
    (document, score), (_, other) = store.similarity_search_with_relevance_scores("harbour", k=2)
    assert document == Document(page_content="harbour", metadata={"n": 1}, id="1")
    assert 0.99 < score <= 1
    assert 0 <= other < score
    assert [d.id for d in store.similarity_search("harbour", filter={"n": 2})] == ["2"]
    for same in (
        {"n": {"$eq": 2}},
        {"$and": [{"n": 2}, {"n": {"$eq": 2}}]},
        {"n": {"$gt": 1, "$lte": 2}},
        {"$or": [{"n": 2}, {"x.y": 1}]},
        {"n": {"$nin": [1, 3]}},
        {"n": {"$in": (2, 3), "$ne": 1}},
        {"$not": {"n": {"$lt": 2}}},
        {"n": {"$not": {"$eq": 1}}, "o": {"$exists": False}},
    ):
        assert [d.id for d in store.similarity_search("harbour", filter=same)] == ["2"], same
    assert store.similarity_search("harbour", filter={"$and": [{"n": 1}, {"n": 2}]}) == []
    assert len(store.similarity_search("harbour", filter={})) == 2
    refused: tuple[Any, ...] = (
        *({"n": {"$like": "2%"}}, {"$gt": 1}, {"$or": []}, {"n": {"$gt": [1]}}, {"n": {}}, {2: 2}),
        lambda document: True,
    )
    for unsupported in refused:
        with pytest.raises(FilterUnsupported, match="filter: "):
            store.similarity_search("harbour", filter=unsupported)


@pytest.mark.slow
def test_diversity_and_vectors_are_passed_on(store: KnowledgeVectorStore) -> None:
    store.add_texts(["harbour at six", "harbour at six!", "a bicycle"], ids=["1", "2", "3"])
    assert "3" in {d.id for d in store.max_marginal_relevance_search("harbour at six", 2, lambda_mult=0.0)}
    assert "3" not in {d.id for d in store.max_marginal_relevance_search("harbour at six", 2, lambda_mult=1.0)}
    with pytest.raises(InvalidInput, match="384"):
        store.similarity_search_by_vector([1.0, 0.0])
    assert store.similarity_search_by_vector([1.0] * 384, k=3) is not None


@pytest.mark.slow
def test_more_documents_than_a_page_are_found(store: KnowledgeVectorStore) -> None:
    store.add_texts([f"berth {n}" for n in range(53)])
    assert len({d.id for d in store.similarity_search("berth", k=52)}) == 52


def test_refused_documents_are_named_and_the_others_stored(store: KnowledgeVectorStore) -> None:
    with pytest.raises(DocumentsRefused, match="number 1") as refused:
        store.add_texts(["kept", ""], ids=["1", "2"])
    assert [r.index for r in refused.value.refused] == [1]
    assert [d.id for d in store.get_by_ids(["1", "2"])] == ["1"]


def test_lists_of_different_lengths_and_nameless_deletions_are_refused(store: KnowledgeVectorStore) -> None:
    with pytest.raises(ValueError, match="ids: has 1 items for 2"):
        store.add_texts(["a", "b"], ids=["1"])
    with pytest.raises(ValueError, match="ids: are required"):
        store.delete()


def test_entries_from_other_sources_have_ids_too(store: KnowledgeVectorStore, client: KnowledgeClient) -> None:
    made = client.create_entry("The harbour opens at six.")
    (found,) = store.similarity_search("harbour")
    assert found.id == str(made.id)
    assert store.get_by_ids([str(made.id)])[0].page_content == made.content
    assert store.delete([str(made.id)]) is True
    assert store.similarity_search("harbour") == []


async def test_documents_have_the_readers_of_the_store_or_of_the_call(
    client: KnowledgeClient, async_client: AsyncKnowledgeClient
) -> None:
    lists = {"readers": ["group:port", "user:ada"], "writers": ["user:ada"]}
    store = KnowledgeVectorStore.from_texts(
        ["harbour"], ids=["1"], client=client, async_client=async_client, readers=lists["readers"]
    )
    await store.aadd_documents([Document(page_content="quay", id="2")], **lists)
    store.add_texts(["pier"], ids=["3"], readers=None)
    kept = {number: client.find_entry(number) for number in "123"}
    assert [entry and entry.readers for entry in kept.values()] == [lists["readers"], lists["readers"], None]
    assert [entry and entry.writers for entry in kept.values()] == [None, ["user:ada"], None]
    with pytest.raises(DocumentsRefused, match="readers"):
        store.add_texts(["hidden"], readers=["group:sales"])
    KnowledgeVectorStore(client).add_texts(["harbour at six"], ids=["1"])
    assert (entry := client.find_entry("1")) is not None
    assert (entry.content, entry.readers) == ("harbour at six", lists["readers"])


pytest.importorskip("langchain_core", reason="langchain-core is not installed")
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
