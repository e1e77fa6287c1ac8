"""The catalog gate finds missing protections on every node of a cluster: of its shards, functions and rights."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.cli.doctor.database import check_isolation
from app.cli.doctor.finding import Finding
from app.composition.database import SERVICE, check_database, prepare
from app.db.rows import new_id
from app.db.schema.isolation import find_faults
from app.errors import ConfigurationError
from tests.citus.faults import BARE, FILTERED, MUTATIONS, WRAPPED
from tests.fixtures.database.citus import (
    SHARDS,
    CitusCluster,
    CitusDatabase,
    create_citus_database,
    drop_citus_database,
)
from tests.fixtures.database.cluster import MODEL, Connection, TestDatabase, connected

pytestmark = pytest.mark.slow


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
    shards = {row["name"]: row["shard"] for row in await worker.fetch("select * from shards.names($1)", first)}
    return {
        **shards,
        "group": str(first),
        "other_group": str(second),
        "entries_id": shards["entries"].removeprefix("entries_"),
        "other_entries": await worker.fetchval("select shard from shards.names($1) where name = 'entries'", second),
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


async def test_each_policy_of_readers_and_writers_is_compared_on_the_shards(
    worker: Connection, names: dict[str, str]
) -> None:
    policies = await worker.fetch(
        "select p.polname as name, s.shard as place from shards.names($1) s"
        "  join pg_policy p on p.polrelid = to_regclass('public.' || s.shard) and not p.polpermissive",
        int(names["group"]),
    )
    assert len(policies) >= 40
    undo = worker.transaction()
    await undo.start()
    for policy in policies:
        await worker.execute(f"drop policy {policy['name']} on {policy['place']}")
    found = await faults_of(worker)
    await undo.rollback()
    lacking = "is missing or allows more than it should"
    assert {f"policy {each['name']} on {each['place']} {lacking}" for each in policies} <= {*found}


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
            ConfigurationError, match=rf"node .*: tenants are not isolated: kb_app may TRUNCATE on {names['entries']}"
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
    assert [(f.status, f.detail.partition(": policies")[0]) for f in findings] == [("ok", node) for node in nodes]
    await worker.execute(f"alter table {names['jobs']} no force row level security")
    try:
        findings = await look(citus_database.coordinator)
    finally:
        await worker.execute(f"alter table {names['jobs']} force row level security")
    assert [f.status for f in findings] == ["ok", "wrong", "ok"]
    assert findings[1].detail == (f"{nodes[1]}: table {names['jobs']} has row-level security that its owner is free of")
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


async def test_a_session_on_a_worker_reads_no_row_of_a_shard_without_its_tenant(citus_database: CitusDatabase) -> None:
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
