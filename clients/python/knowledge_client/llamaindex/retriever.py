"""A LlamaIndex retriever: the service's own search, with the semantic and the keyword leg."""

from __future__ import annotations

from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from knowledge_client.async_client import AsyncKnowledgeClient
from knowledge_client.client import KnowledgeClient
from knowledge_client.documents import Found, facts_of, find
from knowledge_client.exchange import Exchange
from knowledge_client.fields import SearchOptions
from knowledge_client.llamaindex.filters import read_filters
from knowledge_client.llamaindex.nodes import node_of
from knowledge_client.running import run, run_async


class KnowledgeRetriever(BaseRetriever):
    """Finds entries and chunks of documents; their metadata include title, source, score and search."""

    def __init__(
        self,
        client: KnowledgeClient | None = None,
        async_client: AsyncKnowledgeClient | None = None,
        *,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        filters: MetadataFilters | None = None,
        options: SearchOptions | None = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        """Without an `async_client`, `aretrieve` uses `client` in a thread.

        `options` apply to every search, e.g. {"tags": ["billing"]}; `filters` are on metadata. Raises
        FilterUnsupported.
        """
        self._client = client
        self._async_client = async_client
        self._top_k = similarity_top_k
        condition = read_filters(filters)
        filtered: SearchOptions = {} if condition is None else {"filter": condition}
        if condition is not None and (also := (options or {}).get("filter")) is not None:
            filtered = {"filter": {"and": [condition, dict(also)]}}
        self._options: SearchOptions = {**(options or {}), **filtered}
        super().__init__(callback_manager=callback_manager, verbose=verbose)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _show(run(self._client, self._find(query_bundle)))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _show(await run_async(self._async_client, self._client, self._find(query_bundle)))

    def _find(self, query: QueryBundle) -> Exchange[Found]:
        options: Any = dict(self._options)
        if query.embedding is not None:
            options["query_embedding"] = query.embedding
        return find(query.query_str, self._top_k, options)


def _show(found: Found) -> list[NodeWithScore]:
    return [NodeWithScore(node=node_of(hit, facts_of(hit, found.search_id)), score=hit.score) for hit in found.hits]
