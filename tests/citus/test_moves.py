"""Tenants move between the nodes of a cluster while they are written and searched; no write is lost or refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import orjson
import pytest

from app.composition.database import SERVICE, open_cluster, prepare
from app.composition.services import Services, build_services
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.rows import new_id
from app.db.schema.isolation import find_faults
from app.embeddings.factory import ProviderConfig, build_provider
from app.errors import ConfigurationError, Conflict, InvalidInput, TenantNotFound
from app.knowledge.administration.cluster import Cluster
from app.settings import load_settings
from tests.citus.load import Load
from tests.fixtures.database.citus import CitusCluster, CitusDatabase, create_citus_database, drop_citus_database
from tests.fixtures.database.cluster import MODEL, connected

pytestmark = pytest.mark.slow

SLUGS = ("quay", "crane", "mooring")
SHARDS = 2
LIBRARIES = "pgoutput, test_decoding, citus"


@pytest.fixture(scope="module")
async def database(citus_cluster: CitusCluster) -> AsyncIterator[CitusDatabase]:
    """A migrated database with two shards of each table."""
    made = await create_citus_database(citus_cluster, "kb_moves")
    try:
        await prepare(made.coordinator.admin_dsn, service_role=SERVICE, model=MODEL, shards=SHARDS)
        yield made
    finally:
        await drop_citus_database(citus_cluster, "kb_moves")


async def allow_division(cluster: CitusCluster, change: str) -> None:
    for node in cluster.nodes:
        async with connected(node.dsn(database="postgres")) as superuser:
            if await superuser.fetchval("select current_setting('output_plugin_libraries', true) is not null"):
                await superuser.execute(f"alter system {change}")
                await superuser.execute("select pg_reload_conf()")


@pytest.fixture
async def services(database: CitusDatabase) -> AsyncIterator[Services]:
    provider = build_provider(ProviderConfig(kind="mock", dimensions=MODEL.dimensions))
    lent = Database(database.coordinator.service_dsn, pool_size=4)
    made = await build_services(lent, provider)
    try:
        yield made
    finally:
        await made.close()
        await provider.close()
        await lent.close()


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


@asynccontextmanager
async def administered(
    database: CitusDatabase, *, dsn: str | None = None, for_moves: bool = True
) -> AsyncIterator[Cluster]:
    """The cluster as the commands open it, with the superuser's address if no other is given."""
    settings = load_settings(
        {
            "DATABASE_URL": database.coordinator.service_dsn,
            "DATABASE_ADMIN_URL": dsn or database.coordinator.superuser_dsn,
            "EMBEDDING_PROVIDER": "mock",
        },
        None,
        identity_required=False,
    )
    async with open_cluster(settings, for_moves=for_moves) as cluster:
        yield cluster


async def shard_of(database: CitusDatabase, tenant_id: UUID) -> tuple[int, str, int]:
    """The tenant's shard and its place."""
    async with connected(database.coordinator.superuser_dsn) as superuser:
        row = await superuser.fetchrow(
            "select shardid, nodename, nodeport from citus_shards"
            " where shardid = get_shard_id_for_distribution_column('tenants', $1::uuid)",
            tenant_id,
        )
    assert row is not None
    return row[0], row[1], row[2]


async def other_node(database: CitusDatabase, tenant_id: UUID) -> tuple[str, int]:
    """A worker that does not have the tenant."""
    _, host, port = await shard_of(database, tenant_id)
    places = [(node.address.socket_dir, node.address.port) for node in database.workers]
    return next(place for place in places if place != (host, port))


async def test_moves_under_load_lose_no_write_and_refuse_no_request(
    database: CitusDatabase, services: Services, tenants: dict[str, UUID]
) -> None:
    load = Load(services, list(tenants.values()))
    quay = tenants["quay"]
    async with administered(database) as cluster, load.running():
        with_shard = await cluster.move("quay", *await other_node(database, quay), mode="force_logical", actor="test")
        alone = await cluster.move(
            "quay", *await other_node(database, quay), alone=True, mode="force_logical", actor="test"
        )
        again = await cluster.move("quay", *await other_node(database, quay), mode="force_logical", actor="test")
        await rebalance(database)
    assert load.wrong == []
    assert load.refused == []
    assert await load.find_lost() == []
    assert (with_shard.isolated, alone.isolated, alone.tenants, again.tenants) == (False, True, 1, 1)
    assert alone.shard != with_shard.shard
    assert again.shard == alone.shard
    for done in (with_shard, alone, again):
        assert done.source != done.target
        assert done.held_seconds is not None
        print(  # noqa: T201
            f"{done.tenants} tenants moved in {done.seconds:.1f} s; writes waited at most {done.held_seconds:.2f} s"
        )
    print(f"{load.requests} requests; the longest took {load.longest:.2f} s")  # noqa: T201


async def rebalance(database: CitusDatabase) -> None:
    """Move shards by Citus' own choice, from one node to two."""
    async with connected(database.coordinator.superuser_dsn) as superuser:
        await superuser.execute(
            "select citus_rebalance_start("
            "rebalance_strategy => 'by_shard_count', shard_transfer_mode => 'force_logical')"
        )
        await superuser.execute("select citus_rebalance_wait()")
        left = await superuser.fetchval(
            "select count(*) from get_rebalance_table_shards_plan('tenants', rebalance_strategy => 'by_shard_count')"
        )
    assert left == 0


async def test_a_move_keeps_every_table_and_its_protection(
    database: CitusDatabase, services: Services, tenants: dict[str, UUID]
) -> None:
    quay = tenants["quay"]
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
