"""A served database of a cluster whose shards are moved, divided and rebalanced."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID

import httpx
from asgi_lifespan import LifespanManager

from app.auth.tokens import TokenVerifier
from app.composition.database import SERVICE, open_cluster, prepare
from app.composition.services import Services, build_services
from app.db.database import Database
from app.embeddings.factory import ProviderConfig, build_provider
from app.knowledge.administration.cluster import Cluster, TenantMove
from app.main import create_app
from app.settings import Settings, load_settings
from tests.citus.load import Load
from tests.fixtures.database.citus import CitusCluster, CitusDatabase, create_citus_database, drop_citus_database
from tests.fixtures.database.cluster import MODEL, connected
from tests.fixtures.http.callers import SECRET, open_client

SHARDS = 2
STRATEGY = "rebalance_strategy => 'by_shard_count'"


@asynccontextmanager
async def few_shards(cluster: CitusCluster, name: str) -> AsyncIterator[CitusDatabase]:
    """A migrated database with two shards of each table."""
    made = await create_citus_database(cluster, name)
    try:
        await prepare(made.coordinator.admin_dsn, service_role=SERVICE, model=MODEL, shards=SHARDS)
        yield made
    finally:
        await drop_citus_database(cluster, name)


@asynccontextmanager
async def served(database: CitusDatabase) -> AsyncIterator[tuple[Services, httpx.AsyncClient]]:
    """The services with the mock provider, and their HTTP application, which also does the work in the background."""
    async with AsyncExitStack() as stack:
        provider = build_provider(ProviderConfig(kind="mock", dimensions=MODEL.dimensions))
        stack.push_async_callback(provider.close)
        opened = Database(database.coordinator.service_dsn, pool_size=4)
        stack.push_async_callback(opened.close)
        services = await build_services(opened, provider)
        stack.push_async_callback(services.close)
        app = create_app(Settings(), services, TokenVerifier(secret=SECRET))
        await stack.enter_async_context(LifespanManager(app))
        yield services, await stack.enter_async_context(open_client(app))


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


async def change_places(
    database: CitusDatabase, cluster: Cluster, load: Load, slug: str, tenant_id: UUID
) -> list[TenantMove]:
    """Move a tenant with its shard, then in a shard of its own, then that shard, and rebalance the shards."""
    moves = []
    for change, alone in (("move", False), ("division", True), ("move", False)):
        target = await other_node(database, tenant_id)
        with load.during(change):
            moves.append(await cluster.move(slug, *target, alone=alone, mode="force_logical", actor="test"))
    with load.during("rebalance"):
        await rebalance(database)
    return moves


async def rebalance(database: CitusDatabase) -> None:
    """Move shards by Citus' own choice until all nodes have as many."""
    plan = f"select count(*) from get_rebalance_table_shards_plan('tenants', {STRATEGY})"
    async with connected(database.coordinator.superuser_dsn) as superuser:
        assert await superuser.fetchval(plan)
        await superuser.execute(f"select citus_rebalance_start({STRATEGY}, shard_transfer_mode => 'force_logical')")
        await superuser.execute("select citus_rebalance_wait()")
        assert not await superuser.fetchval(plan)
