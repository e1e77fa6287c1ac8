"""`knowledge migrate` on a Citus cluster: it distributes the tables, prepares every node, and can be repeated."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.composition.database import SERVICE, prepare
from app.db.identifiers import new_id
from tests.fixtures.database.citus import (
    CitusCluster,
    CitusDatabase,
    create_citus_database,
    drop_citus_database,
)
from tests.fixtures.database.cluster import MODEL, connected

SHARDS = 4
LOCAL = {"platform_audit", "revoked_platform_tokens", "send_turns", "tenant_slugs"}


@pytest.fixture
async def empty(citus_cluster: CitusCluster) -> AsyncIterator[CitusDatabase]:
    """A database of the cluster before its first migration."""
    yield await create_citus_database(citus_cluster, "kb_migration")
    await drop_citus_database(citus_cluster, "kb_migration")


@pytest.fixture
async def migrated(empty: CitusDatabase) -> CitusDatabase:
    """A database with four shards of each table."""
    await prepare(empty.coordinator.admin_dsn, service_role=SERVICE, model=MODEL, shards=SHARDS)
    return empty


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


async def test_every_table_of_tenants_is_distributed_with_the_tenants(migrated: CitusDatabase) -> None:
    async with connected(migrated.coordinator.superuser_dsn) as superuser:
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


async def test_a_second_run_changes_nothing(migrated: CitusDatabase) -> None:
    before = await state_of(migrated)
    await prepare(migrated.coordinator.admin_dsn, service_role=SERVICE, model=MODEL)
    assert await state_of(migrated) == before


async def test_no_function_of_any_node_is_open_to_every_role(migrated: CitusDatabase) -> None:
    for node in migrated.nodes:
        async with connected(node.service_dsn) as service:
            rows = await service.fetch("""
                select p.oid::regprocedure::text as name, has_function_privilege('public', p.oid, 'execute') as is_open
                  from pg_proc p
                 where p.pronamespace::regnamespace::text in ('public', 'tenancy', 'keyword', 'queue', 'shards')
                   and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')""")
            assert len(rows) > 40
            assert not [row["name"] for row in rows if row["is_open"]]


async def test_slugs_are_unique_over_all_shards(migrated: CitusDatabase) -> None:
    async with connected(migrated.coordinator.service_dsn) as service:
        create = "select tenancy.create_tenant($1, $2, 'A tenant', 1, 'test')"
        tenants = [new_id() for _ in range(3 * SHARDS)]
        for n, tenant in enumerate(tenants):
            await service.execute(create, tenant, f"tenant-{n}")
        for n in range(len(tenants)):
            with pytest.raises(asyncpg.UniqueViolationError):
                await service.execute(create, new_id(), f"tenant-{n}")
        assert await service.fetchval("select tenancy.delete_tenant($1, 'test')", tenants[0])
        await service.execute(create, new_id(), "tenant-0")
        assert await service.fetchval("select count(*) from tenancy.list_tenants()") == len(tenants)
