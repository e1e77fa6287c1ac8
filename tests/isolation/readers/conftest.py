"""Callers of one tenant with different groups."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import asyncpg
import pytest

from app.auth.principal import Role
from app.composition.services import build_services
from app.db.cluster.sessions import Place
from app.db.database import Database
from app.embedded import EmbeddedAddress
from tests.fixtures.database.cluster import MODEL, NODES_OF, Connection, TestDatabase, connected, new_database
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.providers.failing import FailingProvider
from tests.isolation.readers.holdings import Held, fill_restricted

Join = Callable[..., Caller]


@pytest.fixture
def join(admin: Caller) -> Join:
    """Makes callers of the admin's tenant: a subject, its groups, and a role (creator)."""

    def make(subject: str, *groups: str, role: Role = Role.CREATOR) -> Caller:
        token = make_token(admin.tenant_id, role, subject=subject, groups=groups)
        return Caller(admin.http, admin.tenant_id, token)

    return make


@dataclass(frozen=True, slots=True)
class PlacedConnection:
    """A connection to a node of a cluster, on which statements name the shards that hold a tenant."""

    _connection: Connection
    _write: Callable[[str], str]

    async def execute(self, sql: str, *values: Any) -> str:
        return await self._connection.execute(self._write(sql), *values)

    async def fetch(self, sql: str, *values: Any) -> list[asyncpg.Record]:
        return await self._connection.fetch(self._write(sql), *values)

    async def fetchrow(self, sql: str, *values: Any) -> asyncpg.Record | None:
        return await self._connection.fetchrow(self._write(sql), *values)

    async def fetchval(self, sql: str, *values: Any) -> Any:
        return await self._connection.fetchval(self._write(sql), *values)


@pytest.fixture(scope="module")
async def held(cluster: EmbeddedAddress, template: str) -> AsyncIterator[tuple[TestDatabase, Held]]:
    """A database with a tenant whose tables all have hidden rows."""
    async with new_database(cluster, template=template) as made:
        database = Database(made.service_dsn)
        provider = FailingProvider(MODEL)
        services = await build_services(database, provider)
        found = await fill_restricted(services, provider, made.superuser_dsn)
        await services.close()
        await database.close()
        yield made, found


@pytest.fixture
async def breaking(held: tuple[TestDatabase, Held]) -> AsyncIterator[tuple[Connection, Held]]:
    """A superuser in a transaction that is undone; in a cluster, on the node that holds the tenant."""
    made, found = held
    place = await find_place(made, found) if made.address in NODES_OF else None
    dsn = made.superuser_dsn
    if place is not None:
        (node,) = [node for node in NODES_OF[made.address] if f":{node.port}/" in place.node.dsn]
        dsn = replace(made, address=node).superuser_dsn
    async with connected(dsn) as connection:
        undo = connection.transaction()
        await undo.start()
        if place is None:
            yield connection, found
        else:
            await connection.execute(
                "set local citus.override_table_visibility = off; set local citus.enable_manual_changes_to_shards = on"
            )
            yield cast("Connection", PlacedConnection(connection, place.write)), found
        await undo.rollback()


async def find_place(made: TestDatabase, found: Held) -> Place:
    database = Database(made.service_dsn)
    await database.join_cluster()
    assert database.nodes is not None
    place = await database.nodes.place_of(found.tenant_id)
    await database.close()
    return place
