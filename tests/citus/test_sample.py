"""A short sample of the tests on a cluster, for each run of the tests."""

from __future__ import annotations

from app.composition.database import SERVICE, check_database, prepare
from app.db.identifiers import new_id
from app.db.schema.isolation import find_faults
from tests.fixtures.database.citus import CitusDatabase
from tests.fixtures.database.cluster import MODEL, connected


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
        await superuser.execute(
            f"drop policy tenant_isolation on {shard}; grant truncate on {shard} to kb_app"
        )
        await superuser.execute("set local role kb_service")
        faults = [fault.text for fault in await find_faults(superuser)]
        await undo.rollback()
    assert faults == [f"table {shard} has no policy for kb_app", f"kb_app may TRUNCATE on {shard}"]


async def test_a_tenant_is_created_and_deleted_on_the_coordinator(citus_database: CitusDatabase) -> None:
    async with connected(citus_database.coordinator.service_dsn) as service:
        tenant = new_id()
        await service.execute("select tenancy.create_tenant($1, 'sample', 'A tenant', 1, 'test')", tenant)
        assert await service.fetchval("select tenancy.delete_tenant($1, 'test')", tenant)
        assert not await service.fetchval("select tenancy.delete_tenant($1, 'test')", tenant)
