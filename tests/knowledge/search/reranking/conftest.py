"""Searches over a reranking server."""

from collections.abc import AsyncIterator

import pytest

from app.composition.services import Services
from app.knowledge.search.service import KnowledgeSearchService
from app.reranking import RerankServer, ResilientReranker
from app.resilience import CallPolicy
from tests.fixtures.providers.rerank_wire import RerankWire
from tests.fixtures.searching import make_search


@pytest.fixture
async def reranker(rerank_wire: RerankWire) -> AsyncIterator[ResilientReranker]:
    server = RerankServer(f"{rerank_wire.url}/cohere/rerank", "cohere", model="m1")
    built = ResilientReranker(server, 2.0, CallPolicy(attempts=1, failure_threshold=2))
    yield built
    await built.close()


@pytest.fixture
def search(services: Services, reranker: ResilientReranker) -> KnowledgeSearchService:
    return make_search(services, reranker=reranker)
