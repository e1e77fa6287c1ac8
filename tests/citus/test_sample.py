"""A short sample of the tests on a cluster, for each run of the tests: isolation, and the main flow."""

import asyncio

from app.composition.database import SERVICE, check_database, prepare
from app.composition.services import build_services
from app.contract.administration import NewTenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.rows import new_id
from app.db.schema.isolation import find_faults
from tests.fixtures.database.citus import CitusDatabase
from tests.fixtures.database.cluster import MODEL, connected
from tests.fixtures.providers.failing import FailingProvider

TENANTS = 4
HARBOUR = b"# Harbour\n\nThe harbour closes at dusk."


async def test_a_migrated_cluster_isolates_tenants_on_every_node(citus_database: CitusDatabase) -> None:
    await prepare(citus_database.coordinator.admin_dsn, service_role=SERVICE, model=MODEL)
    await check_database(citus_database.coordinator.service_dsn)


async def test_an_open_shard_of_a_worker_is_found(citus_database: CitusDatabase) -> None:
    async with connected(citus_database.workers[0].superuser_dsn) as superuser:
        undo = superuser.transaction()
        await undo.start()
        shard = await superuser.fetchval(
            "select n.shard from shards.local_groups() g cross join shards.names(g) n where n.name = 'entries' limit 1"
        )
        await superuser.execute("set local citus.enable_ddl_propagation = off")
        await superuser.execute("set local citus.enable_manual_changes_to_shards = on")
        await superuser.execute(f"drop policy tenant_isolation on {shard}; grant truncate on {shard} to kb_app")
        await superuser.execute("set local role kb_service")
        faults = [fault.text for fault in await find_faults(superuser)]
        await undo.rollback()
    assert faults == [
        f"table {shard} has no policy for kb_reader",
        f"kb_app may TRUNCATE on {shard}",
        f"on the shard {shard}: rights of kb_app on public.entries differs from its text in alembic/sql",
    ]


async def test_a_tenant_is_created_and_deleted_on_the_coordinator(citus_database: CitusDatabase) -> None:
    async with connected(citus_database.coordinator.service_dsn) as service:
        tenant = new_id()
        await service.execute("select tenancy.create_tenant($1, 'sample', 'A tenant', 1, 'test')", tenant)
        assert await service.fetchval("select tenancy.delete_tenant($1, 'test')", tenant)
        assert not await service.fetchval("select tenancy.delete_tenant($1, 'test')", tenant)


async def test_tenants_of_all_nodes_are_served(citus_database: CitusDatabase) -> None:
    database = Database(citus_database.coordinator.service_dsn, pool_size=4)
    services = await build_services(database, FailingProvider(MODEL))
    tenants = [await services.tenants.create(NewTenant(f"flow-{number}"), actor="test") for number in range(TENANTS)]
    for tenant in tenants:
        parent, _ = await services.entries.create(tenant.id, EntryDraft(content=f"A bell of {tenant.slug}."))
        await services.entries.create(tenant.id, EntryDraft(content="A sail.", parent_id=parent.id))
        await services.assets.upload(tenant.id, Upload("harbour.md", HARBOUR))
    while await services.worker.run_once():
        pass
    assert database.nodes is not None
    places = [await database.nodes.place_of(tenant.id) for tenant in tenants]
    assert all(place.node is not database for place in places)
    for tenant in tenants:
        for query in ("harbour at dusk", "bell"):
            results = await asyncio.gather(
                *(
                    services.search.search(tenant.id, SearchQuery(query=query, mode=mode))
                    for mode in ("hybrid", "semantic", "keyword")
                )
            )
            assert results[0].results
            assert results[2].results
            for found in results:
                assert not found.metadata.degraded
                own = [hit.content for hit in found.results if "bell" in hit.content]
                assert all(tenant.slug in content for content in own)
        # The link of the other entry to this one is cleared, as on one server.
        (bell,) = [e for e in (await services.entries.list_entries(tenant.id)).items if "bell" in e.content]
        await services.entries.delete(tenant.id, bell.id)
        left = (await services.entries.list_entries(tenant.id, entry_type="fact")).items
        assert [entry.parent_id for entry in left] == [None]
    for tenant in tenants:
        await services.tenants.delete(tenant.id, actor="test")
    await services.close()
    await database.close()
    async with connected(citus_database.coordinator.superuser_dsn) as superuser:
        assert await superuser.fetchval("select count(*) from entries") == 0
