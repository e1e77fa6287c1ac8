"""Every tenant table and partition, and every command, with the tenant's own id, another id or no id set."""

import pytest

from tests.fixtures.database.cluster import PARTITIONS, Connection
from tests.fixtures.database.seeded import Seeded
from tests.isolation.matrix import COMMANDS, ROLE, SETTINGS, SHARED, find_shared_faults, list_relations, probe_matrix


async def test_matrix_has_every_table_and_partition(seeded: Seeded, breaker: Connection) -> None:
    relations = await list_relations(breaker)
    assert {r.name for r in relations if not r.is_partition} == {*seeded.tables, "tenants"}
    assert sum(r.is_partition for r in relations) >= 2 * PARTITIONS


async def test_tables_without_a_tenant_are_few_and_known(breaker: Connection) -> None:
    assert await find_shared_faults(breaker) == []
    await breaker.execute(f"grant select, insert, update, delete on all tables in schema public to {ROLE}")
    found = {fault.partition(":")[0] for fault in await find_shared_faults(breaker)}
    assert found == set(SHARED)


@pytest.mark.parametrize("granted", [False, True], ids=["as granted", "with every right granted"])
async def test_matrix_reaches_only_the_current_tenant(seeded: Seeded, breaker: Connection, granted: bool) -> None:
    """With the rights of the migrations, and with all rights on everything: then only the policies protect the rows."""
    relations = await list_relations(breaker)
    if granted:
        await breaker.execute(f"grant select, insert, update, delete on all tables in schema public to {ROLE}")
    tenant, other = (seeded.second, seeded.first) if granted else (seeded.first, seeded.second)
    cells, faults = await probe_matrix(breaker, tenant, other, relations)
    assert faults == []
    assert cells == len(relations) * len(COMMANDS) * len(SETTINGS)
    print(f"{cells} cells of {len(relations)} tables and partitions")  # noqa: T201
