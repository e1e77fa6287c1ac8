"""The index of a large tenant on a cluster: built on the tenant's node, and again after a move."""

from uuid import UUID

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import NewTenant
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.database import Database
from app.knowledge.search.plan import SearchDefaults
from app.knowledge.upkeep import Upkeep
from tests.fixtures.database.citus import CitusDatabase
from tests.fixtures.database.cluster import MODEL, connected
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.searching import semantic_leg_of

pytestmark = pytest.mark.slow

EXACT_LIMIT = 20


async def test_a_large_tenant_has_its_index_on_its_node_and_gets_it_again_after_a_move(
    citus_database: CitusDatabase,
) -> None:
    database = Database(citus_database.coordinator.service_dsn, pool_size=4)
    services = await build_services(database, FailingProvider(MODEL), defaults=SearchDefaults(exact_limit=EXACT_LIMIT))
    tenant = (await services.tenants.create(NewTenant("large"), actor="test")).id
    drafts = [EntryDraft(content=f"quay number {number}") for number in range(3 * EXACT_LIMIT)]
    await services.entries.create_many(tenant, drafts)
    await work(services, citus_database, tenant)
    assert await find_index(citus_database, tenant) == [await port_of(database, tenant)]
    before = await look(services, tenant)
    assert before[0] == "indexed"

    source = await port_of(database, tenant)
    target = next(node.address.port for node in citus_database.workers if node.address.port != source)
    async with connected(citus_database.coordinator.superuser_dsn) as superuser:
        await superuser.execute(
            "select citus_move_shard_placement(get_shard_id_for_distribution_column('tenants', $1::uuid),"
            " '127.0.0.1', $2, '127.0.0.1', $3, 'block_writes')",
            tenant,
            source,
            target,
        )
    # The index has stayed behind; what a search says of itself and its hits are right nevertheless.
    _, exact, hits = await look(services, tenant)
    assert set(hits) == set(before[2])
    assert await port_of(database, tenant) == target
    assert target not in await find_index(citus_database, tenant)
    await work(services, citus_database, tenant)
    assert target in await find_index(citus_database, tenant)
    assert await look(services, tenant) == before
    assert not exact
    await services.tenants.delete(tenant, actor="test")
    await services.worker.sweep.run()
    assert target not in await find_index(citus_database, tenant)
    await services.close()
    await database.close()


async def work(services: Services, cluster: CitusDatabase, tenant: UUID) -> None:
    """Do all work that is due, and that comes from it."""
    upkeep = Upkeep(services.database, services.tenants, services.jobs, exact_limit=EXACT_LIMIT)
    await upkeep.check(tenant)
    while True:
        async with connected(cluster.coordinator.superuser_dsn) as superuser:
            await superuser.execute("update jobs set run_at = now() where state = 'queued'")
        if not await services.worker.run_once():
            return


async def find_index(cluster: CitusDatabase, tenant: UUID) -> list[int]:
    """The ports of the nodes that have an index of the tenant."""
    found = []
    for node in cluster.nodes:
        async with connected(node.superuser_dsn) as superuser:
            name = f"public.embeddings_hnsw_1_{tenant.hex}"
            if await superuser.fetchval("select to_regclass($1) is not null", name):
                found.append(node.address.port)
    return found


async def port_of(database: Database, tenant: UUID) -> int:
    assert database.nodes is not None
    place = await database.nodes.place_of(tenant)
    return int(place.node.dsn.rpartition(":")[2].partition("/")[0])


async def look(services: Services, tenant: UUID) -> tuple[str, bool, list[str]]:
    """How the semantic leg searched, whether the answer is exact, and the hits."""
    wanted = SearchQuery(query="quay number 7", mode="semantic", similarity_threshold=0, limit=3, explain=True)
    found = await services.search.search(tenant, wanted)
    return semantic_leg_of(found).strategy, found.metadata.exact, [hit.content for hit in found.results]
