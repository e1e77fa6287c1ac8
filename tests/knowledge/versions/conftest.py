"""Tenants that keep versions."""

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from tests.knowledge.versions.keeping import keep


@pytest.fixture
async def keeper(services: Services, tenant: Tenant) -> Tenant:
    """A tenant that keeps former versions."""
    await keep(services, tenant, 30)
    return tenant
