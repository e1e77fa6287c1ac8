"""Tenants move between the nodes of a cluster while they are written and searched; no write is lost or refused."""

from collections.abc import AsyncIterator
from uuid import UUID

import httpx
import orjson
import pytest

from app.composition.services import Services
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.rows import new_id
from app.db.schema.isolation import find_faults
from app.errors import ConfigurationError, Conflict, InvalidInput, TenantNotFound
from tests.citus.load import KINDS, Load
from tests.citus.moving import SHARDS, administered, change_places, few_shards, other_node, served, shard_of
from tests.fixtures.database.citus import CitusCluster, CitusDatabase
from tests.fixtures.database.cluster import connected

pytestmark = pytest.mark.slow

SLUGS = ("quay", "crane", "mooring")
LIBRARIES = "pgoutput, test_decoding, citus"


@pytest.fixture(scope="module")
async def database(citus_cluster: CitusCluster) -> AsyncIterator[CitusDatabase]:
    async with few_shards(citus_cluster, "kb_moves") as made:
        yield made


async def allow_division(cluster: CitusCluster, change: str) -> None:
    for node in cluster.nodes:
        async with connected(node.dsn(database="postgres")) as superuser:
            if await superuser.fetchval("select current_setting('output_plugin_libraries', true) is not null"):
                await superuser.execute(f"alter system {change}")
                await superuser.execute("select pg_reload_conf()")


@pytest.fixture
async def opened(database: CitusDatabase) -> AsyncIterator[tuple[Services, httpx.AsyncClient]]:
    async with served(database) as services:
        yield services


@pytest.fixture
async def tenants(database: CitusDatabase) -> AsyncIterator[dict[str, UUID]]:
    """The ids of new tenants by their slugs; at least two are in one shard."""
    made = {slug: new_id() for slug in SLUGS}
    async with connected(database.coordinator.service_dsn) as service:
        for slug, tenant_id in made.items():
            await service.execute("select tenancy.create_tenant($1, $2, $2, 1, 'test')", tenant_id, slug)
        yield made
        for tenant_id in made.values():
            await service.execute("select tenancy.delete_tenant($1, 'test')", tenant_id)


async def test_moves_under_load_lose_no_write_and_refuse_no_request(
    database: CitusDatabase, opened: tuple[Services, httpx.AsyncClient], tenants: dict[str, UUID]
) -> None:
    load = Load(opened[1], list(tenants.values()))
    async with administered(database) as cluster, load.running():
        with_shard, alone, again = await change_places(database, cluster, load, "quay", tenants["quay"])
    assert load.wrong == []
    assert load.refused == []
    assert await load.find_lost() == []
    assert {answered.kind for answered in load.answered} == {*KINDS}
    assert {answered.change for answered in load.answered} == {None, "move", "division", "rebalance"}
    assert (with_shard.isolated, alone.isolated, alone.tenants, again.tenants) == (False, True, 1, 1)
    assert alone.shard != with_shard.shard
    assert again.shard == alone.shard
    for done in (with_shard, alone, again):
        assert done.source != done.target
        assert done.held_seconds is not None


async def test_a_move_keeps_every_table_and_its_protection(
    database: CitusDatabase, opened: tuple[Services, httpx.AsyncClient], tenants: dict[str, UUID]
) -> None:
    quay, (services, _) = tenants["quay"], opened
    await services.entries.create(quay, EntryDraft(content="The quay closes at dusk.", tags=["night"]))
    before = await count_rows(database, quay)
    assert before["entries"] == before["embeddings"] == before["tag_statistics"] == 1
    async with administered(database) as cluster:
        for alone in (False, True):
            target = await other_node(database, quay)
            await cluster.move("quay", *target, alone=alone, mode="force_logical", actor="test")
            assert (await shard_of(database, quay))[1:] == target
            assert await count_rows(database, quay) == before
    for node in database.nodes:
        async with connected(node.service_dsn) as service:
            assert await find_faults(service) == []
    (hit,) = await services.search.search(quay, SearchQuery(query="dusk"))
    assert hit.content == "The quay closes at dusk."


async def count_rows(database: CitusDatabase, tenant_id: UUID) -> dict[str, int]:
    """The rows of a tenant in each table, without those that searches leave."""
    async with connected(database.coordinator.superuser_dsn) as superuser:
        names = await superuser.fetch(
            "select logicalrelid::text as name from pg_dist_partition where partmethod = 'h'"
            " and logicalrelid::text not in ('tenants', 'searches', 'jobs')"
        )
        return {
            row["name"]: await superuser.fetchval(f"select count(*) from {row['name']} where tenant_id = $1", tenant_id)
            for row in names
        }


async def test_moves_need_a_role_that_sees_all_rows(database: CitusDatabase, tenants: dict[str, UUID]) -> None:
    owner = database.coordinator.admin_dsn
    with pytest.raises(ConfigurationError, match="row-level security applies to the role"):
        async with administered(database, dsn=owner):
            pass
    async with administered(database, dsn=owner, for_moves=False) as cluster:
        assert sum(node.shards for node in await cluster.nodes()) >= SHARDS


async def test_nodes_and_shards_show_their_tenants_and_sizes(database: CitusDatabase, tenants: dict[str, UUID]) -> None:
    async with administered(database, for_moves=False) as cluster:
        nodes, shards = await cluster.nodes(), await cluster.shards()
    assert [node.role for node in nodes] == ["coordinator", "worker", "worker"]
    assert [(n.host, n.port) for n in nodes] == [(n.address.socket_dir, n.address.port) for n in database.nodes]
    assert sum(node.tenants or 0 for node in nodes) == len(tenants)
    assert nodes[0].shards == 0
    for node in nodes:
        held = [shard for shard in shards if (shard.host, shard.port) == (node.host, node.port)]
        assert (node.shards, node.tenants) == (len(held), sum(shard.tenants or 0 for shard in held))
        assert node.bytes == sum(shard.bytes or 0 for shard in held)
        assert node.connections is not None
        assert node.most_connections is not None
        assert 0 < node.connections <= node.most_connections
    assert [shard.bytes for shard in shards] == sorted((s.bytes or 0 for s in shards), reverse=True)
    for tenant_id in tenants.values():
        number, *_ = await shard_of(database, tenant_id)
        assert number in {shard.shard for shard in shards if shard.tenants}


async def test_moves_that_cannot_be_are_refused(database: CitusDatabase, tenants: dict[str, UUID]) -> None:
    _, host, port = await shard_of(database, tenants["quay"])
    coordinator = database.coordinator.address
    async with administered(database) as cluster:
        with pytest.raises(TenantNotFound, match="there is no tenant 'absent'"):
            await cluster.move("absent", host, port, mode="force_logical", actor="test")
        with pytest.raises(InvalidInput, match=f"quay is already on {host}:{port}"):
            await cluster.move("quay", host, port, mode="force_logical", actor="test")
        for place in ((coordinator.socket_dir, coordinator.port), ("nowhere", 1)):
            with pytest.raises(InvalidInput, match="is not a node that holds tenants; these are: "):
                await cluster.move("quay", *place, mode="force_logical", actor="test")
    with pytest.raises(ConfigurationError, match="leads to a worker"):
        async with administered(database, dsn=database.workers[0].superuser_dsn):
            pass


async def test_a_move_is_in_the_platform_trail_also_if_citus_refuses_it(
    citus_cluster: CitusCluster, database: CitusDatabase, tenants: dict[str, UUID]
) -> None:
    quay = tenants["quay"]
    async with administered(database) as cluster:
        done = await cluster.move("quay", *await other_node(database, quay), mode="block_writes", actor="ops")
        target = await other_node(database, quay)
        if await has_libraries(database):
            await allow_division(citus_cluster, "set output_plugin_libraries = pgoutput")
            try:
                with pytest.raises(Conflict, match="set output_plugin_libraries = 'pgoutput, test_decoding, citus'"):
                    await cluster.move("quay", *target, alone=True, mode="force_logical", actor="ops")
            finally:
                await allow_division(citus_cluster, f"set output_plugin_libraries = {LIBRARIES}")
    async with connected(database.coordinator.superuser_dsn) as superuser:
        rows = await superuser.fetch(
            "select subject_tenant, outcome, detail from platform_audit"
            " where actor = 'ops' and action = 'tenant.move' order by id"
        )
    assert rows[0]["subject_tenant"] == quay
    assert rows[0]["outcome"] == "done"
    assert orjson.loads(rows[0]["detail"]) == {
        "shard": done.shard, "source": done.source, "target": done.target, "tenants": done.tenants,
        "isolated": False, "mode": "block_writes",
    }  # fmt: skip
    assert [row["outcome"] for row in rows[1:]] == ["refused"] * (len(rows) - 1)


async def has_libraries(database: CitusDatabase) -> bool:
    async with connected(database.coordinator.superuser_dsn) as superuser:
        return bool(
            await superuser.fetchval("select exists (select from pg_settings where name = 'output_plugin_libraries')")
        )
