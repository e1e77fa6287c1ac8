"""LangChain over the knowledge search service; needs the extra `langchain`."""

from knowledge_client.conditions import FilterUnsupported
from knowledge_client.documents import DocumentsRefused
from knowledge_client.langchain.retriever import KnowledgeRetriever
from knowledge_client.langchain.vectorstore import KnowledgeVectorStore

__all__ = ["DocumentsRefused", "FilterUnsupported", "KnowledgeRetriever", "KnowledgeVectorStore"]
