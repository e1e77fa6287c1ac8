"""The scripts of `deploy/citus`, run as written on servers that ask for passwords."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from app.composition.database import MIGRATOR, SERVICE
from tests.fixtures.database.citus import CitusCluster, drop_citus_database, register_nodes, run_script
from tests.fixtures.database.cluster import PASSWORDS, connected

pytestmark = pytest.mark.slow

NAME = "kb_deployed"
AWKWARD = "a'b\\c d"
"""A password that must be escaped in a connection string."""


async def test_nodes_log_in_to_each_other_and_only_a_superuser_moves_shards(citus_cluster: CitusCluster) -> None:
    coordinator, *workers = citus_cluster.nodes
    async with asking_for_passwords(citus_cluster):
        for node in citus_cluster.nodes:
            for script in ("roles.sh", "citus/node.sh", "citus/node.sh"):
                await run_script(script, node, NAME, MIGRATOR_PASSWORD=AWKWARD)
        first = await register_nodes(citus_cluster, NAME)
        assert first.splitlines() == [
            f"{coordinator.socket_dir}:{coordinator.port} (coordinator)",
            *(f"{worker.socket_dir}:{worker.port}" for worker in workers),
        ]
        assert await register_nodes(citus_cluster, NAME) == first

        login = coordinator.dsn(MIGRATOR, NAME, AWKWARD)
        async with connected(login) as owner, connected(coordinator.dsn(database=NAME)) as superuser:
            await owner.execute("create table notes (tenant_id uuid primary key, body text)")
            await owner.execute("select create_distributed_table('notes', 'tenant_id', shard_count => 2)")
            await owner.execute(f"insert into notes values ('{UUID(int=1)}', 'kept')")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await owner.execute("select citus_rebalance_start()")
            # Needs the library that node.sql allows.
            shard = await superuser.fetchval(
                f"select isolate_tenant_to_new_shard('notes', '{UUID(int=1)}', 'CASCADE', "
                "shard_transfer_mode => 'force_logical')"
            )
            source = await owner.fetchval("select nodeport from citus_shards where shardid = $1", shard)
            target = next(worker.port for worker in workers if worker.port != source)
            await superuser.execute(
                "select citus_move_shard_placement($1, $2, $3, $2, $4, 'force_logical')",
                shard, coordinator.socket_dir, source, target,
            )  # fmt: skip
            assert await owner.fetchval("select body from notes") == "kept"
        async with connected(workers[0].dsn(SERVICE, NAME, PASSWORDS[SERVICE])) as service:
            assert (
                await service.fetchval("select count(*) from run_command_on_all_nodes('select 1') where success") == 3
            )


@asynccontextmanager
async def asking_for_passwords(cluster: CitusCluster) -> AsyncIterator[None]:
    """A database on each node to which no role logs in without its password."""
    try:
        for node in cluster.nodes:
            async with connected(node.dsn(database="postgres")) as superuser:
                await superuser.execute(f"alter role current_user password '{node.password}'")
                await superuser.execute(f"create database {NAME}")
                change_rules(await superuser.fetchval("show hba_file"), f"host {NAME} all all scram-sha-256\n")
                await superuser.execute("select pg_reload_conf()")
        yield
    finally:
        await drop_citus_database(cluster, NAME)
        for node in cluster.nodes:
            async with connected(node.dsn(database="postgres")) as superuser:
                change_rules(await superuser.fetchval("show hba_file"), "")
                for role, password in PASSWORDS.items():
                    await superuser.execute(f"alter role {role} password '{password}'")
                await superuser.execute("select pg_reload_conf()")


def change_rules(file: str, first: str) -> None:
    """Begin the server's rules of access with this line, in place of one for the database."""
    rules = Path(file).read_text().splitlines(keepends=True)
    Path(file).write_text(first + "".join(rule for rule in rules if f" {NAME} " not in rule))
