"""A LlamaIndex vector store: nodes stored as entries, embedded by the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Unpack

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)

from knowledge_client.async_client import AsyncKnowledgeClient
from knowledge_client.client import KnowledgeClient
from knowledge_client.documents import AccessLists, lists_of, shared_fields
from knowledge_client.exchange import Exchange
from knowledge_client.fields import EntryFields, SearchOptions
from knowledge_client.llamaindex import stored
from knowledge_client.llamaindex.filters import read_filters
from knowledge_client.llamaindex.queries import read_query
from knowledge_client.running import run, run_async

T = TypeVar("T")


class KnowledgeVectorStore(BasePydanticVectorStore):
    """Searches semantically by default; the score is the cosine, 0 to 1.

    The service embeds nodes and queries, so give the index `MockEmbedding(1)`: vectors of nodes are ignored. The modes
    are DEFAULT and MMR (semantic), SPARSE and TEXT_SEARCH (keyword; the score is BM25), and HYBRID (both legs; `alpha`
    is the weight of the semantic one, and the score is the fused one); others raise ModeUnsupported. Filters that the
    service cannot apply raise FilterUnsupported. `sparse_top_k` is ignored. A node with a cosine below 0 is not found.
    """

    stores_text: bool = True
    is_embedding_query: bool = False

    _client: KnowledgeClient | None = PrivateAttr()
    _async_client: AsyncKnowledgeClient | None = PrivateAttr()
    _tags: tuple[str, ...] = PrivateAttr()
    _access: AccessLists = PrivateAttr()
    _options: SearchOptions = PrivateAttr()
    _wait: float = PrivateAttr()

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
        """Without an `async_client`, the async methods use `client` in a thread.

        `tags` keep this store's nodes apart from the tenant's other knowledge: they are added to each node and required
        of each node that is found, listed or deleted. `options` apply to every search. Adding waits up to `wait`
        seconds for the service to embed; 0 does not wait. `readers` and `writers` are those of each node that is added;
        without them, a new one is for all readers of the tenant.
        """
        super().__init__(stores_text=True, is_embedding_query=False)
        self._client = client
        self._async_client = async_client
        self._tags = tuple(tags)
        self._access = access
        self._options = {"similarity_threshold": 0.0, **(options or {})}
        if tags:
            self._options = {**self._options, "tags": self._tags, "tags_match": "all"}
        self._wait = wait

    @classmethod
    def class_name(cls) -> str:
        """The name in serialised settings."""
        return "KnowledgeVectorStore"

    @property
    def client(self) -> KnowledgeClient | AsyncKnowledgeClient | None:
        """The client that the store uses."""
        return self._client or self._async_client

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Store nodes; a node with an existing id replaces it. Return their ids.

        `readers` and `writers` replace those of the store; an index passes them on from `insert_nodes`.
        Raises ValueError for metadata with the key `_node`, DocumentsRefused, and IndexingUnfinished.
        """
        return run(self._client, stored.add(nodes, self._fields(kwargs), self._wait))

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """As `add`."""
        return await self._run(stored.add(nodes, self._fields(kwargs), self._wait))

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The most similar nodes; `kwargs` are `SearchOptions`, and `mmr_threshold`.

        Raises ModeUnsupported, FilterUnsupported, and ValueError for a query without what its mode needs.
        """
        return run(self._client, read_query(query, kwargs, self._options).run())

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """As `query`."""
        return await self._run(read_query(query, kwargs, self._options).run())

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """The nodes with these ids, in their order, that fulfil the filters; without ids, all nodes of the store.

        Ids that do not exist are skipped. Without ids, all entries with the store's tags are read, 200 in a request.
        Raises FilterUnsupported.
        """
        return run(self._client, stored.fetch(node_ids, read_filters(filters), self._tags))

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """As `get_nodes`."""
        return await self._run(stored.fetch(node_ids, read_filters(filters), self._tags))

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a document. All entries with the store's tags are read, 200 in a request.

        An uploaded file is not deleted: raises ValueError for the id of an asset.
        """
        run(self._client, stored.delete_document(ref_doc_id, self._tags))

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """As `delete`."""
        await self._run(stored.delete_document(ref_doc_id, self._tags))

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete the nodes with these ids that fulfil the filters; without ids, all nodes that fulfil them.

        Entries that no store wrote are deleted only by their ids. Without ids, all entries with the store's tags are
        read, 200 in a request. Raises ValueError without ids and filters, and FilterUnsupported.
        """
        run(self._client, stored.delete(node_ids, read_filters(filters), self._tags))

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """As `delete_nodes`."""
        await self._run(stored.delete(node_ids, read_filters(filters), self._tags))

    def clear(self) -> None:
        """Delete all nodes with the store's tags; without tags, of all stores. Other entries stay."""
        run(self._client, stored.clear(self._tags))

    async def aclear(self) -> None:
        """As `clear`."""
        await self._run(stored.clear(self._tags))

    def _fields(self, given: Mapping[str, Any]) -> EntryFields:
        return shared_fields(self._tags, {**self._access, **lists_of(given)})

    async def _run(self, exchange: Exchange[T]) -> T:
        return await run_async(self._async_client, self._client, exchange)
