"""Hybrid search over a tenant's knowledge: two legs, their fusion, and an explanation."""

from app.contract.search import SearchQuery
from app.knowledge.search.service import KnowledgeSearchService

__all__ = ["KnowledgeSearchService", "SearchQuery"]
