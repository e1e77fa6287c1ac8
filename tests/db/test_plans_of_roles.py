"""Connections keep their role where they can, since they make all their plans again when it changes."""

from __future__ import annotations

from collections import defaultdict

from app.db.database import Database
from app.db.principals import Rights, acting_as
from tests.db.statements import PID
from tests.fixtures.database.cluster import connected
from tests.fixtures.database.seeded import Seeded


async def find_connection(database: Database, seeded: Seeded, rights: Rights) -> int:
    with acting_as((), rights):
        async with database.tenant_session(seeded.first) as session:
            return int(await session.fetch_value(PID))


async def test_transactions_of_one_role_share_a_connection_that_others_do_not_use(
    seeded: Seeded, pool: Database
) -> None:
    used = defaultdict[Rights, set[int]](set)
    for _ in range(4):
        for rights in (Rights.READ, Rights.WRITE, Rights.ALL):
            used[rights].add(await find_connection(pool, seeded, rights))
    assert [len(connections) for connections in used.values()] == [1, 1, 1]
    assert len(set.union(*used.values())) == 3


async def test_a_full_pool_gives_a_new_role_the_connection_that_has_been_idle_longest(
    seeded: Seeded, pool: Database
) -> None:
    first, second, third = [
        await find_connection(pool, seeded, rights) for rights in (Rights.READ, Rights.WRITE, Rights.ALL)
    ]
    assert await find_connection(pool, seeded, Rights.READ) == first
    assert await find_connection(pool, seeded, Rights.ADMINISTER) == second
    assert await find_connection(pool, seeded, Rights.READ) == first
    assert await find_connection(pool, seeded, Rights.ALL) == third


async def test_an_idle_connection_of_another_role_is_better_than_none(seeded: Seeded, pool: Database) -> None:
    only = await find_connection(pool, seeded, Rights.READ)
    async with connected(seeded.database.superuser_dsn) as superuser:
        name = await superuser.fetchval("select current_database()")
        await superuser.execute(f"alter database {name} connection limit 1")
        try:
            assert await find_connection(pool, seeded, Rights.WRITE) == only
        finally:
            await superuser.execute(f"alter database {name} connection limit -1")


async def test_the_only_connection_serves_all_roles(seeded: Seeded, single: Database) -> None:
    assert len({await find_connection(single, seeded, rights) for rights in Rights}) == 1
