"""The catalog gate finds missing protections on every node of a cluster: of its shards, functions and rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.cli.doctor.database import check_isolation
from app.cli.doctor.finding import Finding
from app.composition.database import SERVICE, check_database, prepare
from app.db.identifiers import new_id
from app.db.schema.isolation import find_faults
from app.errors import ConfigurationError
from tests.fixtures.database.citus import (
    SHARDS,
    CitusCluster,
    CitusDatabase,
    create_citus_database,
    drop_citus_database,
)
from tests.fixtures.database.cluster import MODEL, Connection, TestDatabase, connected

pytestmark = pytest.mark.slow

BARE = "tenant_id = public.current_tenant()"
WRAPPED = "tenant_id = (select public.current_tenant())"
CHANGED = "do $do$ begin execute replace(pg_get_functiondef('{}'::regprocedure), {}); end $do$"
FILTERED = "keyword.filtered_ids_{group}(entry_filter, integer)"
DEFINER = "language sql security definer set search_path = pg_catalog, public, pg_temp"

MUTATIONS = {
    "a policy of a shard is dropped": (
        "drop policy tenant_isolation on {entries}",
        "table {entries} has no policy",
    ),
    "force is lifted from a shard": (
        "alter table {entries} no force row level security",
        "table {entries} has row-level security that its owner is free of",
    ),
    "row-level security of a shard is off": (
        "alter table {jobs} disable row level security",
        "table {jobs} has row-level security switched off",
    ),
    "row-level security of a shard of tenants is off": (
        "alter table {tenants} disable row level security",
        "table {tenants} has row-level security switched off",
    ),
    "a wide condition": (
        "alter policy tenant_isolation on {assets} using (true)",
        "policy tenant_isolation on {assets} shows rows of other tenants",
    ),
    "a wide check": (
        "alter policy tenant_isolation on {assets} with check (true)",
        "policy tenant_isolation on {assets} shows",
    ),
    "an unset tenant sees all": (
        f"alter policy tenant_isolation on {{jobs}} using ({BARE} or public.current_tenant() is null)",
        "policy tenant_isolation on {jobs} shows",
    ),
    "a wide policy of tenants": (
        "alter policy own_tenant on {tenants} using (true)",
        "policy own_tenant on {tenants} shows",
    ),
    "a policy of tenants that compares another column": (
        "alter policy own_tenant on {tenants} using (model_id = 1)",
        "policy own_tenant on {tenants} shows",
    ),
    "a permissive policy": (
        "create policy extra on {audit} for select to kb_app using (true)",
        "policy extra on {audit} shows",
    ),
    "the keyword policy for another role": (
        "alter policy keyword_search on {entries} to kb_keyword, kb_queue",
        "policy keyword_search on {entries} shows",
    ),
    "the keyword policy on another table": (
        "create policy keyword_search on {assets} for select to kb_keyword using (true)",
        "policy keyword_search on {assets} shows",
    ),
    "a shard for every role": ("grant select on {entries} to public", "public may SELECT on {entries}"),
    "truncate of a shard": ("grant truncate on {entries} to kb_app", "kb_app may TRUNCATE on {entries}"),
    "the keyword role reads another table": (
        "grant select on {assets} to kb_keyword",
        "kb_keyword may SELECT on {assets}",
    ),
    "the queue changes more columns": (
        "grant update (subject) on {jobs} to kb_queue",
        "kb_queue may UPDATE (subject) on {jobs}",
    ),
    "the trail can be changed": ("grant update on {audit} to kb_app", "change the trail in {audit}"),
    "tenants can be added": ("grant insert on {tenants} to kb_app", "insert into or delete from {tenants}"),
    "limits can be changed": (
        "grant update (limits) on {tenants} to kb_app",
        "update columns of {tenants} other than",
    ),
    "a copy of a reference table can be written": (
        "grant delete on {embedding_models} to kb_app",
        "the service may DELETE on {embedding_models}",
    ),
    "the list of groups can be changed": (
        "grant insert on shards.adopted to kb_app",
        "the service may INSERT on shards.adopted",
    ),
    "a function for every role": (
        "grant execute on function repeats_another(uuid, uuid, bytea, entry_filter) to public",
        "function repeats_another(uuid,uuid,bytea,entry_filter) may be executed by public",
    ),
    "a copy of a function for every role": (
        f"grant execute on function {FILTERED} to public",
        "function keyword.filtered_ids_{group}(entry_filter,integer) may be executed by public",
    ),
    "a copy of a function with another owner": (
        f"alter function {FILTERED} owner to kb_migrator",
        "function keyword.filtered_ids_{group}(entry_filter,integer) belongs to kb_migrator",
    ),
    "a copy of a function without its condition": (
        CHANGED.format(FILTERED, "'e.tenant_id = $1', 'true'"),
        "function keyword.filtered_ids_{group}(public.entry_filter,integer) differs from the function",
    ),
    "a copy that reads another group": (
        CHANGED.format(FILTERED, "'{entries}', '{other_entries}'"),
        "function keyword.filtered_ids_{group}(public.entry_filter,integer) differs from the function",
    ),
    "a copy of a group that does not exist, without its condition": (
        CHANGED.format(FILTERED, "'{group}', '99999'")
        + "; alter function keyword.filtered_ids_99999 owner to kb_keyword;"
        + CHANGED.format(FILTERED.replace("{group}", "99999"), "'e.tenant_id = $1', 'true'"),
        "function keyword.filtered_ids_99999(public.entry_filter,integer) differs from the function",
    ),
    "a function that is named like a copy": (
        f"create function keyword.other_{{group}}() returns bigint {DEFINER}"
        " as 'select count(*) from public.{entries}'",
        "function keyword.other_{group}() runs with its owner's rights and is not one of the known ones",
    ),
    "a function of the nodes is changed": (
        "alter function shards.enter(bigint) security invoker",
        "function shards.enter(bigint) differs from its text in alembic/sql",
    ),
    "the service may create functions for the nodes": (
        "grant create on schema shards to kb_app",
        "kb_app may create in schema shards",
    ),
    "the tenant is another one": (
        "create or replace function current_tenant() returns uuid language sql stable return null::uuid",
        "function public.current_tenant() differs from its text",
    ),
    "a trigger of a shard is dropped": (
        "drop trigger count_inserted_{entries_id} on {entries}",
        "on the shard {entries}: trigger count_inserted of public.entries is missing",
    ),
    "a trigger of a shard runs another function": (
        "create or replace trigger count_inserted_{entries_id} after insert on {entries}"
        " referencing new table as added for each statement execute function public.count_tags()",
        "on the shard {entries}: trigger count_inserted of public.entries differs",
    ),
    "another trigger of a shard": (
        "create trigger extra after insert on {entries} for each row execute function public.clear_links()",
        "on the shard {entries}: trigger extra of public.entries is not in alembic/sql",
    ),
    "a trigger of a shard is disabled": (
        "alter table {entries} disable trigger count_inserted_{entries_id}",
        "trigger count_inserted_{entries_id} on {entries} is disabled",
    ),
    "a foreign key of a shard is dropped": (
        "do $do$ declare name text; begin select conname into name from pg_constraint"
        " where conrelid = '{jobs}'::regclass and contype = 'f';"
        " execute format('alter table {jobs} drop constraint %I', name); end $do$",
        "on the shard {jobs}: foreign key of public.jobs: FOREIGN KEY (tenant_id)",
    ),
    "a unique index over tenants": (
        "create unique index extra on {assets} (id)",
        "unique index extra does not start with tenant_id",
    ),
    "a vector index over tenants": (
        "create index extra on {embeddings} using hnsw ((embedding::halfvec(16)) halfvec_cosine_ops)",
        "index extra is not limited to the vectors of one tenant",
    ),
    "a view of a shard": (
        "create view everything as select * from {entries}; grant select on everything to kb_app",
        "view everything reads with its owner's rights",
    ),
    "a policy of the node's own table is dropped": (
        "drop policy tenant_isolation on entries",
        "table entries has no policy for kb_app",
    ),
    "row-level security of the node's own table is off": (
        "alter table audit disable row level security",
        "table audit has row-level security switched off",
    ),
}


@pytest.fixture(scope="module")
async def worker(citus_database: CitusDatabase) -> AsyncIterator[Connection]:
    """A worker as superuser, who may change shards; each test undoes its changes."""
    async with connected(citus_database.workers[0].superuser_dsn) as superuser:
        await superuser.execute(
            "set citus.enable_ddl_propagation = off; set citus.enable_manual_changes_to_shards = on"
        )
        yield superuser


@pytest.fixture(scope="module")
async def names(worker: Connection) -> dict[str, str]:
    """The names of the tables of a group on the worker, its number, and the shard of entries of another group."""
    first, second, *_ = [row[0] for row in await worker.fetch("select shards.local_groups() order by 1")]
    shards = {
        row["name"]: row["shard"] for row in await worker.fetch("select * from shards.names($1)", first)
    }
    return {
        **shards,
        "group": str(first),
        "entries_id": shards["entries"].removeprefix("entries_"),
        "other_entries": await worker.fetchval(
            "select shard from shards.names($1) where name = 'entries'", second
        ),
    }


async def faults_of(superuser: Connection) -> list[str]:
    await superuser.execute("set local role kb_service")
    return [fault.text for fault in await find_faults(superuser)]


async def test_no_node_of_an_intact_cluster_has_a_fault(citus_database: CitusDatabase) -> None:
    for node in citus_database.nodes:
        async with connected(node.service_dsn) as service:
            assert await find_faults(service) == []


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=list(MUTATIONS))
async def test_a_fault_of_a_worker_is_found(
    worker: Connection, names: dict[str, str], mutation: tuple[str, str]
) -> None:
    sql, fault = (text.format_map(names) for text in mutation)
    undo = worker.transaction()
    await undo.start()
    try:
        await worker.execute(sql)
        found = await faults_of(worker)
    finally:
        await undo.rollback()
    assert [text for text in found if fault in text], found


@pytest.mark.parametrize("condition", [BARE, WRAPPED])
async def test_the_policy_of_a_shard_may_have_a_sub_select_or_none(
    worker: Connection, names: dict[str, str], condition: str
) -> None:
    undo = worker.transaction()
    await undo.start()
    try:
        await worker.execute(
            f"alter policy tenant_isolation on {names['entries']} using ({condition}) with check ({condition})"
        )
        assert await faults_of(worker) == []
    finally:
        await undo.rollback()


async def test_a_cluster_with_a_fault_on_a_worker_is_not_served(
    citus_database: CitusDatabase, worker: Connection, names: dict[str, str]
) -> None:
    await check_database(citus_database.coordinator.service_dsn)
    await worker.execute(f"grant truncate on {names['entries']} to kb_app")
    try:
        with pytest.raises(
            ConfigurationError,
            match=rf"node .*: tenants are not isolated: kb_app may TRUNCATE on {names['entries']}",
        ):
            await check_database(citus_database.coordinator.service_dsn)
    finally:
        await worker.execute(f"revoke truncate on {names['entries']} from kb_app")


async def test_doctor_shows_each_node_and_its_faults(
    citus_database: CitusDatabase, worker: Connection, names: dict[str, str]
) -> None:
    async def look(at: TestDatabase) -> list[Finding]:
        async with connected(at.service_dsn) as service:
            return [finding async for finding in check_isolation(service, at.service_dsn)]

    nodes = [f"node {node.address.socket_dir}:{node.address.port}" for node in citus_database.nodes]
    findings = await look(citus_database.coordinator)
    assert [(f.status, f.detail.partition(": policies")[0]) for f in findings] == [
        ("ok", node) for node in nodes
    ]
    await worker.execute(f"alter table {names['jobs']} no force row level security")
    try:
        findings = await look(citus_database.coordinator)
    finally:
        await worker.execute(f"alter table {names['jobs']} force row level security")
    assert [f.status for f in findings] == ["ok", "wrong", "ok"]
    assert findings[1].detail == (
        f"{nodes[1]}: table {names['jobs']} has row-level security that its owner is free of"
    )
    assert str(findings[1].remedy).startswith(f"on this node, alter table {names['jobs']} enable")
    assert [f.status for f in await look(citus_database.workers[0])] == ["wrong"]


async def test_the_service_does_not_start_with_the_address_of_a_worker(citus_database: CitusDatabase) -> None:
    with pytest.raises(ConfigurationError, match="that of a worker of the cluster; use the coordinator's"):
        await check_database(citus_database.workers[0].service_dsn)


async def test_migrate_restores_copies_and_rights_of_functions(
    citus_database: CitusDatabase, worker: Connection, names: dict[str, str]
) -> None:
    function = FILTERED.format_map(names)
    await worker.execute(f"grant execute on function {function} to public")
    await worker.execute("grant execute on function shards.names(bigint) to public")
    await worker.execute(f"alter function {function} volatile")
    await worker.execute("alter function word_place(text, text) volatile")
    async with connected(citus_database.workers[0].service_dsn) as service:
        assert len(await find_faults(service)) > 3
        await prepare(citus_database.coordinator.admin_dsn, service_role=SERVICE, model=MODEL)
        assert await find_faults(service) == []


async def test_a_session_on_a_worker_reads_no_row_of_a_shard_without_its_tenant(
    citus_database: CitusDatabase,
) -> None:
    for node in citus_database.workers:
        async with connected(node.service_dsn) as service:
            await service.execute("set citus.override_table_visibility = off")
            rows = await service.fetch(r"""
                select c.oid::regclass::text as name from pg_class c
                 where c.relkind = 'r' and c.relname ~ '_\d{6}$'
                   and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id')""")
            assert len(rows) > 20
            for row in rows:
                assert await service.fetchval(f"select count(*) from {row['name']}") == 0
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await service.execute("select * from shards.templates")


@pytest.fixture
async def moving(citus_cluster: CitusCluster) -> AsyncIterator[CitusDatabase]:
    """A database whose shards are moved and split."""
    made = await create_citus_database(citus_cluster, "kb_moving")
    await prepare(made.coordinator.admin_dsn, service_role=SERVICE, model=MODEL, shards=SHARDS)
    yield made
    await drop_citus_database(citus_cluster, "kb_moving")


async def test_moves_and_splits_of_shards_cause_no_fault(moving: CitusDatabase) -> None:
    """For some seconds, nodes have tables of shards that are incomplete, or that have left."""
    first, second = (node.address for node in moving.workers)
    async with connected(moving.coordinator.superuser_dsn) as superuser:
        tenant = new_id()
        await superuser.execute("select tenancy.create_tenant($1, 'moved', 'A tenant', 1, 'test')", tenant)
        place = await superuser.fetchrow(
            "select p.shardid, n.nodeport from pg_dist_placement p join pg_dist_node n on n.groupid = p.groupid"
            " where p.shardid = get_shard_id_for_distribution_column('tenants', $1::uuid)",
            tenant,
        )
        assert place is not None
        source, target = (first, second) if place["nodeport"] == first.port else (second, first)
        for statement in (
            f"select citus_move_shard_placement({place['shardid']}, '{source.socket_dir}', {source.port},"
            f" '{target.socket_dir}', {target.port}, 'force_logical')",
            f"select isolate_tenant_to_new_shard('tenants', '{tenant}'::uuid, 'CASCADE', 'block_writes')",
        ):
            done = asyncio.create_task(superuser.execute(statement))
            looks = 0
            while not done.done() or looks < 3:
                for node in moving.nodes:
                    async with connected(node.service_dsn) as service:
                        assert await find_faults(service) == []
                looks += 1
            await done
        assert await superuser.fetchval("select count(*) from pg_dist_cleanup") > 0
