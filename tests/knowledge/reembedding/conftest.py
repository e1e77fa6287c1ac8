"""A tenant that can move to another model."""

from collections.abc import AsyncIterator

import pytest

from app.composition.services import build_services
from app.contract.administration import NewTenant
from app.db.database import Database
from app.db.schema.owner import register_model
from app.knowledge.search.plan import SearchDefaults
from tests.fixtures.database.cluster import MODEL, TestDatabase
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.reembedding.moving import EXACT_LIMIT, WIDER, Move


@pytest.fixture
async def move(database: Database, fresh_database: TestDatabase) -> AsyncIterator[Move]:
    await register_model(fresh_database.admin_dsn, WIDER)
    old, new = FailingProvider(MODEL), FailingProvider(WIDER)
    services = await build_services(database, old, next_provider=new, defaults=SearchDefaults(exact_limit=EXACT_LIMIT))
    tenant = await services.tenants.create(NewTenant("moving"), actor="test")
    yield Move(services, tenant, fresh_database, old, new)
    await services.close()
