"""Tenants of all nodes of a cluster keep versions, each on its node."""

import pytest

from app.composition.services import build_services
from app.contract.administration import NewTenant
from app.contract.entries import EntryDraft
from app.db.database import Database
from app.errors import EntryNotFound
from tests.fixtures.database.citus import CitusDatabase
from tests.fixtures.database.cluster import MODEL, connected
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.versions.keeping import found, keep, now, texts

TENANTS = 4


@pytest.mark.slow
async def test_versions_are_kept_on_the_tenants_node(citus_database: CitusDatabase) -> None:
    database = Database(citus_database.coordinator.service_dsn, pool_size=4)
    services = await build_services(database, FailingProvider(MODEL))
    tenants = [await services.tenants.create(NewTenant(f"past-{number}"), actor="test") for number in range(TENANTS)]
    entries, moments = [], []
    for tenant in tenants:
        await keep(services, tenant, 30)
        entry, _ = await services.entries.create(tenant.id, EntryDraft(content=f"harbour of {tenant.slug}"))
        entries.append(entry.id)
        moments.append(now())
        await services.entries.change(tenant.id, entry.id, EntryDraft(content="mountain"))
    for tenant, entry_id, moment in zip(tenants, entries, moments, strict=True):
        assert await found(services, tenant, None) == []
        assert await found(services, tenant, moment) == [f"harbour of {tenant.slug}"]
        await services.entries.delete(tenant.id, entry_id)
        assert await texts(services, tenant, entry_id) == ["mountain", f"harbour of {tenant.slug}"]
    with pytest.raises(EntryNotFound):
        await texts(services, tenants[0], entries[1])
    for tenant in tenants:
        await services.tenants.delete(tenant.id, actor="test")
    await services.close()
    await database.close()
    async with connected(citus_database.coordinator.superuser_dsn) as superuser:
        for table in ("former_entries", "former_embeddings", "kept_versions"):
            assert await superuser.fetchval(f"select count(*) from {table}") == 0
