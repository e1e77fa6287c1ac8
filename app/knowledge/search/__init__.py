"""Searching a tenant's knowledge: two legs, fused, explained."""

from app.knowledge.search.query import SearchQuery
from app.knowledge.search.service import KnowledgeSearchService

__all__ = ["KnowledgeSearchService", "SearchQuery"]
