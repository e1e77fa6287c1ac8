"""LlamaIndex over the knowledge search service; needs the extra `llamaindex`."""

from knowledge_client.conditions import FilterUnsupported
from knowledge_client.documents import DocumentsRefused
from knowledge_client.llamaindex.queries import ModeUnsupported
from knowledge_client.llamaindex.retriever import KnowledgeRetriever
from knowledge_client.llamaindex.vectorstore import KnowledgeVectorStore

__all__ = ["DocumentsRefused", "FilterUnsupported", "KnowledgeRetriever", "KnowledgeVectorStore", "ModeUnsupported"]
