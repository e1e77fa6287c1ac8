"""The embedding provider of a tenant."""

from __future__ import annotations

from collections.abc import Mapping

from app.embeddings.provider import EmbeddingProvider
from app.embeddings.resilience.cache import asking_tenant
from app.errors import EmbeddingUnavailable
from app.knowledge.tenants.context import TenantContext


class NoProvider(EmbeddingUnavailable):
    """This process has no provider for the tenant's model; another process may have one."""


def find_provider(providers: Mapping[int, EmbeddingProvider], tenant: TenantContext) -> EmbeddingProvider:
    """Find the provider of the tenant's model, and attribute the calls of the current task to the tenant.

    Raises NoProvider.
    """
    asking_tenant.set(tenant.tenant_id)
    provider = providers.get(tenant.space.model_id)
    if provider is None:
        raise NoProvider(tenant.model.provider, "no provider for the tenant's model", attempts=0)
    return provider
