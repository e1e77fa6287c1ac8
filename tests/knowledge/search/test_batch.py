"""Batches of searches, whose queries are embedded together."""

from __future__ import annotations

import pytest

from app.composition.services import Services
from app.contract.administration import NewTenant, Tenant
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.db.rows import new_id
from app.embeddings.resilience import QueryCache
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.searching import make_search

pytestmark = pytest.mark.own_tenants

BATCH = [SearchQuery(query="harbour"), SearchQuery(query="crane")]


async def test_cached_query_vectors_of_a_batch_belong_to_its_tenant(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    model_id = (await services.tenants.context(tenant.id)).space.model_id
    search = make_search(services, providers={model_id: QueryCache(failing_provider)})
    other = await services.tenants.create(NewTenant(f"t-{new_id().hex}"), actor="test")
    failing_provider.calls.clear()
    for tenant_id in (tenant.id, other.id, tenant.id, other.id):
        await search.search_many(tenant_id, BATCH)
    assert failing_provider.calls == [["harbour", "crane"]] * 2
    # A single search uses the cached vector of its tenant's batch, and never one of another tenant.
    failing_provider.queries.clear()
    await search.search(tenant.id, BATCH[0])
    assert failing_provider.queries == []


async def test_a_batch_without_a_provider_of_its_model_falls_back_to_keywords(
    services: Services, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    for result in await make_search(services, providers={}).search_many(tenant.id, BATCH):
        assert isinstance(result, SearchResult)
        assert (result.metadata.fallback_mode, result.metadata.degraded) == (True, ["embedding_unavailable"])
