"""`knowledge migrate` on a Citus cluster: it distributes the tables, prepares every node, and can be repeated."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.composition.database import SERVICE, check_database, prepare
from app.db.rows import new_id
from app.db.schema.migration import migrate
from app.errors import ConfigurationError
from tests.fixtures.database.citus import (
    SHARDS,
    CitusCluster,
    CitusDatabase,
    create_citus_database,
    drop_citus_database,
)
from tests.fixtures.database.cluster import MODEL, TestDatabase, connected, migrated_database

pytestmark = pytest.mark.slow

LOCAL = {"platform_audit", "revoked_platform_tokens", "send_turns", "tenant_slugs"}


@pytest.fixture
async def empty(citus_cluster: CitusCluster) -> AsyncIterator[CitusDatabase]:
    """A database of the cluster before its first migration."""
    yield await create_citus_database(citus_cluster, "kb_migration")
    await drop_citus_database(citus_cluster, "kb_migration")


async def state_of(database: CitusDatabase) -> list[list[asyncpg.Record]]:
    """What each node has: its tables with their rights, functions with theirs, policies, triggers and keys."""
    states = []
    for node in database.nodes:
        async with connected(node.superuser_dsn) as superuser:
            await superuser.execute("set citus.override_table_visibility = off")
            states.append(
                await superuser.fetch("""
                    select 'table', oid, relname, relacl::text, relrowsecurity, relforcerowsecurity from pg_class
                     where relnamespace::regnamespace::text in ('public', 'shards')
                    union all
                    select 'function', oid, md5(pg_get_functiondef(oid)), proacl::text, null, null from pg_proc
                     where pronamespace::regnamespace::text in ('public', 'tenancy', 'keyword', 'queue', 'shards')
                       and prokind = 'f'
                    union all
                    select 'policy', oid, polname, pg_get_expr(polqual, polrelid), null, null from pg_policy
                    union all
                    select 'trigger', oid, tgname, tgrelid::regclass::text, null, null from pg_trigger
                    union all
                    select 'constraint', oid, conname, pg_get_constraintdef(oid), null, null from pg_constraint
                    order by 1, 2""")
            )
    return states


async def test_every_table_of_tenants_is_distributed_with_the_tenants(citus_database: CitusDatabase) -> None:
    async with connected(citus_database.coordinator.superuser_dsn) as superuser:
        rows = await superuser.fetch("""
            select c.relname as name, p.partmethod::text as method, p.colocationid as group,
                   exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id')
                     as of_tenants,
                   (select count(*) from pg_dist_shard s where s.logicalrelid = c.oid) as shards
              from pg_class c left join pg_dist_partition p on p.logicalrelid = c.oid
             where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
               and c.relowner = 'kb_migrator'::regrole""")
    distributed = [row for row in rows if row["of_tenants"] or row["name"] == "tenants"]
    assert len(distributed) > 20
    assert {(row["method"], row["shards"]) for row in distributed} == {("h", SHARDS)}
    assert len({row["group"] for row in distributed}) == 1
    others = {row["name"]: row["method"] for row in rows if row not in distributed}
    assert others == {"embedding_models": "n", "alembic_version": "n", **dict.fromkeys(LOCAL)}


async def test_a_second_run_changes_nothing(citus_database: CitusDatabase) -> None:
    before = await state_of(citus_database)
    await prepare(citus_database.coordinator.admin_dsn, service_role=SERVICE, model=MODEL)
    assert await state_of(citus_database) == before


async def test_no_function_of_any_node_is_open_to_every_role(citus_database: CitusDatabase) -> None:
    for node in citus_database.nodes:
        async with connected(node.service_dsn) as service:
            rows = await service.fetch("""
                select p.oid::regprocedure::text as name, has_function_privilege('public', p.oid, 'execute') as is_open
                  from pg_proc p
                 where p.pronamespace::regnamespace::text in ('public', 'tenancy', 'keyword', 'queue', 'shards')
                   and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')""")
            assert len(rows) > 40
            assert not [row["name"] for row in rows if row["is_open"]]


async def test_slugs_are_unique_over_all_shards(citus_database: CitusDatabase) -> None:
    async with connected(citus_database.coordinator.service_dsn) as service:
        create = "select tenancy.create_tenant($1, $2, 'A tenant', 1, 'test')"
        tenants = [new_id() for _ in range(3 * SHARDS)]
        for n, tenant in enumerate(tenants):
            await service.execute(create, tenant, f"tenant-{n}")
        for n in range(len(tenants)):
            with pytest.raises(asyncpg.UniqueViolationError):
                await service.execute(create, new_id(), f"tenant-{n}")
        assert await service.fetchval("select tenancy.delete_tenant($1, 'test')", tenants[0])
        await service.execute(create, new_id(), "tenant-0")
        rows = await service.fetch("select slug from tenancy.list_tenants() where slug like 'tenant-%'")
        assert len(rows) == len(tenants)


def name_of(node: TestDatabase) -> str:
    return f"node {node.address.socket_dir}:{node.address.port}"


async def refusal(database: CitusDatabase, dsn: str | None = None, service_role: str = SERVICE) -> str:
    with pytest.raises(ConfigurationError) as caught:
        await prepare(dsn or database.coordinator.admin_dsn, service_role=service_role, model=None, shards=SHARDS)
    return str(caught.value)


async def test_a_cluster_that_lacks_something_is_refused_with_the_node_and_the_remedy(empty: CitusDatabase) -> None:
    worker = empty.workers[1]
    name = name_of(worker)
    assert await refusal(empty, worker.admin_dsn) == (
        "DATABASE_ADMIN_URL: the address is that of a worker of the cluster; use the coordinator's"
    )
    async with connected(worker.superuser_dsn) as superuser:
        await superuser.execute("set citus.enable_ddl_propagation = off")
        await superuser.execute(f"alter database {worker.name} set citus.enable_unsafe_triggers = off")
    assert f"{name}: citus.enable_unsafe_triggers is off; a superuser runs there: alter" in await refusal(empty)
    async with connected(worker.superuser_dsn) as superuser:
        await superuser.execute("set citus.enable_ddl_propagation = off; drop extension vector")
        await superuser.execute(f"alter database {worker.name} reset citus.enable_unsafe_triggers")
    assert f"{name}: the extension pgvector is missing" in await refusal(empty)
    async with connected(worker.superuser_dsn) as superuser:
        await superuser.execute("set citus.enable_ddl_propagation = off; create extension vector")
    async with connected(empty.coordinator.superuser_dsn) as superuser:
        await superuser.execute("set citus.enable_ddl_propagation = off; create role kb_lonely login")
    try:
        assert f"{name_of(empty.workers[0])}: there is no role kb_lonely" in await refusal(
            empty, service_role="kb_lonely"
        )
    finally:
        async with connected(empty.coordinator.superuser_dsn) as superuser:
            await superuser.execute("set citus.enable_ddl_propagation = off; revoke kb_app from kb_lonely")
            await superuser.execute("set citus.enable_ddl_propagation = off; drop role kb_lonely")
    async with connected(worker.superuser_dsn) as superuser:
        await superuser.execute("drop extension citus cascade")
    assert f"{name}: the extension citus is missing" in await refusal(empty)


async def test_an_interrupted_migration_is_completed(empty: CitusDatabase) -> None:
    await migrate(empty.coordinator.admin_dsn)
    async with connected(empty.coordinator.admin_dsn) as owner:
        assert not await owner.fetchval("select exists (select from pg_dist_partition)")
    await prepare(empty.coordinator.admin_dsn, service_role=SERVICE, model=MODEL, shards=SHARDS)
    await check_database(empty.coordinator.service_dsn)


async def test_a_node_that_was_added_is_prepared_by_the_next_migration(empty: CitusDatabase) -> None:
    late = empty.workers[1]
    place = (late.address.socket_dir, late.address.port)
    async with connected(empty.coordinator.superuser_dsn) as superuser:
        await superuser.execute("select citus_remove_node($1, $2)", *place)
        await prepare(empty.coordinator.admin_dsn, service_role=SERVICE, model=MODEL, shards=SHARDS)
        await check_database(empty.coordinator.service_dsn)
        await superuser.execute("select citus_add_node($1, $2)", *place)
        with pytest.raises(
            ConfigurationError,
            match=f"{name_of(late)}: the server does not have the functions of the service yet; run: knowledge migrate",
        ):
            await check_database(empty.coordinator.service_dsn)
        await prepare(empty.coordinator.admin_dsn, service_role=SERVICE, model=MODEL)
        await check_database(empty.coordinator.service_dsn)
        await superuser.execute("select replicate_reference_tables()")
        first = empty.workers[0].address
        shard = await superuser.fetchval(
            "select min(shardid) from pg_dist_shard where logicalrelid = 'tenants'::regclass"
        )
        await superuser.execute(
            f"select citus_move_shard_placement({shard}, '{first.socket_dir}', {first.port}, '{place[0]}', {place[1]},"
            " 'force_logical')"
        )
        await check_database(empty.coordinator.service_dsn)


async def test_the_database_of_one_server_is_not_distributed(citus_cluster: CitusCluster) -> None:
    server = citus_cluster.nodes[0]
    made = await migrated_database(server, "kb_one_server")
    try:
        async with connected(made.superuser_dsn) as superuser:
            await superuser.execute("create extension citus")
            await superuser.execute("select citus_set_coordinator_host($1, $2)", server.socket_dir, server.port)
        with pytest.raises(ConfigurationError, match="was created without Citus, and its tables cannot be"):
            await prepare(made.admin_dsn, service_role=SERVICE, model=MODEL)
        await check_database(made.service_dsn)
    finally:
        async with connected(server.dsn(database="postgres")) as superuser:
            await superuser.execute("drop database kb_one_server with (force)")


async def test_links_to_deleted_entries_are_cleared(citus_database: CitusDatabase) -> None:
    tenant, first, second, third = (new_id() for _ in range(4))
    async with connected(citus_database.coordinator.service_dsn) as service:
        await service.execute("select tenancy.create_tenant($1, 'a', 'A tenant', 1, 'test')", tenant)
    async with connected(citus_database.coordinator.superuser_dsn) as superuser:
        for entry, parent, successor in ((first, None, None), (second, first, None), (third, second, first)):
            await superuser.execute(
                "insert into entries (tenant_id, id, entry_type, content, language, content_hash, text_hash, parent_id,"
                " superseded_by_id) values ($1, $2, 'fact', 'harbour', 'english', $3, $3, $4, $5)",
                tenant,
                entry,
                entry.bytes,
                parent,
                successor,
            )
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await superuser.execute(
                "update entries set parent_id = $2 where tenant_id = $1 and id = $3", tenant, new_id(), first
            )
        await superuser.execute("delete from entries where tenant_id = $1 and id = $2", tenant, first)
        rows = await superuser.fetch(
            "select id, parent_id, superseded_by_id from entries where tenant_id = $1 order by id", tenant
        )
        assert [tuple(row) for row in rows] == [(second, None, None), (third, second, None)]
        await superuser.execute("delete from entries where tenant_id = $1", tenant)
        assert await superuser.fetch("select from entries where tenant_id = $1", tenant) == []
