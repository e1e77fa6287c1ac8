"""Connections keep their role where they can, since they make all their plans again when it changes."""

from collections import defaultdict
from contextlib import AsyncExitStack
from typing import Any

import pytest
from sqlalchemy import event

from app.db.database import Database
from app.db.engine import RECYCLE_SECONDS, ROLE
from app.db.principals import Rights, acting_as
from tests.db.statements import PID
from tests.fixtures.database.cluster import connected
from tests.fixtures.database.seeded import Seeded


@pytest.fixture
async def opened(seeded: Seeded, pool: Database) -> Database:
    """The pool with all of its three connections open, as the service keeps them."""
    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(pool.tenant_session(seeded.first))
    return pool


async def find_connection(database: Database, seeded: Seeded, rights: Rights) -> int:
    with acting_as((), rights):
        async with database.tenant_session(seeded.first) as session:
            return int(await session.fetch_value(PID))


async def test_transactions_of_one_role_share_a_connection_that_others_do_not_use(
    seeded: Seeded, opened: Database
) -> None:
    used = defaultdict[Rights, set[int]](set)
    for _ in range(4):
        for rights in (Rights.READ, Rights.WRITE, Rights.ALL):
            used[rights].add(await find_connection(opened, seeded, rights))
    assert [len(connections) for connections in used.values()] == [1, 1, 1]
    assert len(set.union(*used.values())) == 3


async def test_a_new_role_gets_the_connection_that_has_been_idle_longest(seeded: Seeded, opened: Database) -> None:
    first, second, third = [
        await find_connection(opened, seeded, rights) for rights in (Rights.READ, Rights.WRITE, Rights.ALL)
    ]
    assert await find_connection(opened, seeded, Rights.READ) == first
    assert await find_connection(opened, seeded, Rights.ADMINISTER) == second
    assert await find_connection(opened, seeded, Rights.READ) == first
    assert await find_connection(opened, seeded, Rights.ALL) == third


async def test_no_connection_is_opened_for_a_role_while_another_is_idle(seeded: Seeded, pool: Database) -> None:
    assert len({await find_connection(pool, seeded, rights) for rights in Rights}) == 1


async def test_an_idle_connection_of_another_role_is_better_than_none(seeded: Seeded, opened: Database) -> None:
    """The others have grown old, and the server has no room for new ones."""
    returned: dict[int, Any] = {}
    event.listen(opened.engine.sync_engine, "checkin", lambda _, record: returned.update({id(record): record}))
    first, second, last = [
        await find_connection(opened, seeded, rights) for rights in (Rights.READ, Rights.WRITE, Rights.ALL)
    ]
    assert len({first, second, last}) == len(returned) == 3
    async with connected(seeded.database.superuser_dsn) as superuser:
        name = await superuser.fetchval("select current_database()")
        await superuser.execute(f"alter database {name} connection limit 1")
        try:
            for record in returned.values():
                record.starttime -= 2 * RECYCLE_SECONDS * (record.info[ROLE] != Rights.ALL.value)
            assert await find_connection(opened, seeded, Rights.ADMINISTER) == last
        finally:
            await superuser.execute(f"alter database {name} connection limit -1")
