"""A LangChain retriever: the service's own search, with the semantic and the keyword leg."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from knowledge_client.async_client import AsyncKnowledgeClient
from knowledge_client.client import KnowledgeClient
from knowledge_client.documents import Found, facts_of, find
from knowledge_client.fields import SearchOptions
from knowledge_client.langchain.documents import document_of
from knowledge_client.running import run, run_async


class KnowledgeRetriever(BaseRetriever):
    """Finds entries and chunks of documents; their metadata include title, source, score and search.

    Attributes:
        client: for `invoke`, and for `ainvoke` in a thread if there is no `async_client`.
        async_client: for `ainvoke`.
        k: the number of documents; also an argument of `invoke`.
        options: options of every search, as `SearchOptions`, e.g. {"tags": ["billing"]}.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: KnowledgeClient | None = None
    async_client: AsyncKnowledgeClient | None = None
    k: int = Field(default=4, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None, **options: Any
    ) -> list[Document]:
        return _show(run(self.client, find(query, k or self.k, self._merge(options))))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None, **options: Any
    ) -> list[Document]:
        exchange = find(query, k or self.k, self._merge(options))
        return _show(await run_async(self.async_client, self.client, exchange))

    def _merge(self, options: dict[str, Any]) -> SearchOptions:
        # The service validates options and names the one that is invalid.
        merged: Any = {**self.options, **options}
        options_of_search: SearchOptions = merged
        return options_of_search


def _show(found: Found) -> list[Document]:
    return [document_of(hit, facts_of(hit, found.search_id)) for hit in found.hits]
