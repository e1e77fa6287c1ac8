"""A LangChain vector store: documents stored as entries, embedded by the service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar, Unpack

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from knowledge_client.async_client import AsyncKnowledgeClient
from knowledge_client.client import KnowledgeClient
from knowledge_client.documents import AccessLists, Found, find, lists_of, shared_fields
from knowledge_client.exchange import Exchange
from knowledge_client.fields import EntryFields, SearchOptions
from knowledge_client.langchain.documents import document_of, fetch, remove, store
from knowledge_client.langchain.filters import read_filter
from knowledge_client.running import run, run_async

T = TypeVar("T")
Scored = list[tuple[Document, float]]


class KnowledgeVectorStore(VectorStore):
    """Searches semantically by default; the score is the cosine, 0 to 1.

    Search methods accept all `SearchOptions`, e.g. `mode="hybrid"`. `filter` is LangChain's, on metadata: plain values,
    `$eq`, `$ne`, `$in`, `$nin`, `$gt`, `$gte`, `$lt`, `$lte`, `$exists`, `$and`, `$or` and `$not`; others raise
    FilterUnsupported. A document whose cosine is below 0 is not found.
    """

    def __init__(
        self,
        client: KnowledgeClient | None = None,
        async_client: AsyncKnowledgeClient | None = None,
        *,
        tags: Sequence[str] = (),
        options: SearchOptions | None = None,
        wait: float = 60.0,
        **access: Unpack[AccessLists],
    ) -> None:
        """Without an `async_client` the async methods use `client` in a thread.

        `tags` keep this store's documents apart from the tenant's other knowledge: they are added to each document and
        required of each hit. `options` apply to every search. Adding waits up to `wait` seconds for the service to
        embed; 0 does not wait. `readers` and `writers` are those of each document that is added; without them, a new
        one is for all readers of the tenant.
        """
        self._client = client
        self._async_client = async_client
        self._tags = tuple(tags)
        self._access = access
        self._options: SearchOptions = {"mode": "semantic", "similarity_threshold": 0.0, **(options or {})}
        if tags:
            self._options = {**self._options, "tags": self._tags, "tags_match": "all"}
        self._wait = wait

    @property
    def embeddings(self) -> Embeddings | None:
        """Always None: the service embeds."""
        return None

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Store texts; a text with an existing id replaces it. `readers` and `writers` replace those of the store.

        Raises ValueError, DocumentsRefused and IndexingUnfinished.
        """
        return run(self._client, store(list(texts), metadatas, ids, self._fields(kwargs), self._wait))

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """As `add_texts`."""
        return await self._run(store(list(texts), metadatas, ids, self._fields(kwargs), self._wait))

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents with these ids, in their order; ids that do not exist are skipped."""
        return run(self._client, fetch(ids))

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """As `get_by_ids`."""
        return await self._run(fetch(ids))

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        """Delete documents. Raises ValueError without ids: the call never empties a tenant."""
        return run(self._client, remove(_named(ids)))

    async def adelete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        """As `delete`."""
        return await self._run(remove(_named(ids)))

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """The `k` most similar documents."""
        return _plain(self.similarity_search_with_score(query, k, **kwargs))

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """As `similarity_search`."""
        return _plain(await self.asimilarity_search_with_score(query, k, **kwargs))

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Scored:
        """The `k` most similar documents, each with its cosine (0 if only the keyword leg found it)."""
        return _scored(run(self._client, self._find(query, k, kwargs)))

    async def asimilarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Scored:
        """As `similarity_search_with_score`."""
        return _scored(await self._run(self._find(query, k, kwargs)))

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """The documents nearest to a vector of the tenant's model."""
        return _plain(_scored(run(self._client, self._find_near(embedding, k, kwargs))))

    async def asimilarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """As `similarity_search_by_vector`."""
        return _plain(_scored(await self._run(self._find_near(embedding, k, kwargs))))

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Similar documents that differ from one another; the service sets the number of candidates."""
        diverse = {"diversity": 1.0 - lambda_mult, **kwargs}
        return _plain(_scored(run(self._client, self._find(query, k, diverse))))

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """As `max_marginal_relevance_search`."""
        diverse = {"diversity": 1.0 - lambda_mult, **kwargs}
        return _plain(_scored(await self._run(self._find(query, k, diverse))))

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """A new store, created with `kwargs`, that contains these texts; `embedding` is not used."""
        made = cls(**kwargs)
        made.add_texts(texts, metadatas, ids=ids)
        return made

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """As `from_texts`."""
        made = cls(**kwargs)
        await made.aadd_texts(texts, metadatas, ids=ids)
        return made

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda cosine: min(1.0, max(0.0, cosine))

    def _fields(self, given: Mapping[str, Any]) -> EntryFields:
        return shared_fields(self._tags, {**self._access, **lists_of(given)})

    def _find(self, query: str, k: int, given: Mapping[str, Any]) -> Exchange[Found]:
        # LangChain's own stores use the name `filter`. The service validates the rest and names what is invalid.
        options: Any = {**self._options, **given}
        if "filter" in options:
            options["filter"] = None if options["filter"] is None else read_filter(options["filter"])
        return find(query, k, options)

    def _find_near(self, vector: Sequence[float], k: int, given: Mapping[str, Any]) -> Exchange[Found]:
        # The text of the query affects only the snippets here.
        return self._find("*", k, {**given, "query_embedding": list(vector)})

    async def _run(self, exchange: Exchange[T]) -> T:
        return await run_async(self._async_client, self._client, exchange)


def _named(ids: list[str] | None) -> list[str]:
    if ids is None:
        raise ValueError("ids: are required")
    return ids


def _scored(found: Found) -> Scored:
    return [(document_of(hit), hit.similarity or 0.0) for hit in found.hits]


def _plain(scored: Scored) -> list[Document]:
    return [document for document, _ in scored]
