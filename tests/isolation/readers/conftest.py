"""Callers of one tenant with different groups."""

from collections.abc import AsyncIterator, Callable

import pytest

from app.auth.principal import Role
from app.composition.services import build_services
from app.db.database import Database
from app.embedded import EmbeddedAddress
from tests.fixtures.database.cluster import MODEL, Connection, TestDatabase, connected, new_database
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
    """A superuser in a transaction that is undone."""
    async with connected(held[0].superuser_dsn) as connection:
        undo = connection.transaction()
        await undo.start()
        yield connection, held[1]
        await undo.rollback()
