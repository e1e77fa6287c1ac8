"""Searches read from a replica that has all writes of the tenant, and from the primary whenever none may serve."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from uuid import UUID

import asyncpg
import pytest
from prometheus_client import REGISTRY

from app.composition.database import check_database
from app.composition.services import Services, build_services
from app.contract.administration import NewTenant
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.replicas import Probe, Replica, Replicas, current_replica
from app.db.statements import parse_statement
from tests.fixtures.database.cluster import MODEL, TestDatabase, execute
from tests.fixtures.database.standby import ReplicatedDatabase, replicated_database
from tests.fixtures.providers.failing import FailingProvider

STALENESS = 1.5
TENANT = parse_statement("test.tenant", "select current_setting('app.current_tenant', true)")
WRITE = parse_statement("test.write", "update tenants set name = name where id = :tenant_id")
ENTRIES = parse_statement("test.entries", "select count(*) from entries")


@pytest.fixture(scope="module")
async def servers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ReplicatedDatabase]:
    async with replicated_database(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@contextlib.asynccontextmanager
async def serving(primary: TestDatabase, *replicas: str) -> AsyncIterator[Services]:
    """Services over the primary whose searches may read from the replicas."""
    database = Database(primary.service_dsn, pool_size=5)
    database.replicas = Replicas(
        Probe(primary.service_dsn),
        [Replica(f"replica {n}", Database(dsn, pool_size=5), Probe(dsn)) for n, dsn in enumerate(replicas)],
        staleness=STALENESS,
        check=check_database,
    )
    services = await build_services(database, FailingProvider(MODEL))
    try:
        async with database.replicas.watched():
            yield services
    finally:
        await services.close()
        await database.close()


@pytest.fixture
async def services(servers: ReplicatedDatabase) -> AsyncIterator[Services]:
    async with serving(servers.primary, servers.replica.service_dsn) as services:
        await until(lambda: not problems(services))
        yield services


def problems(services: Services) -> list[str]:
    assert services.database.replicas is not None
    return [r.problem for r in services.database.replicas.replicas if r.problem is not None]


async def until(condition: Callable[[], object], seconds: float = 120) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def reads(server: str) -> float:
    return REGISTRY.get_sample_value("knowledge_replica_reads_total", {"server": server}) or 0.0


@contextlib.contextmanager
def counting(server: str) -> Iterator[Callable[[], float]]:
    before = reads(server)
    yield lambda: reads(server) - before


async def make_tenant(services: Services, slug: str, *contents: str) -> UUID:
    tenant = await services.tenants.create(NewTenant(slug), actor="test")
    await services.entries.create_many(tenant.id, [EntryDraft(content=content) for content in contents])
    await services.embedder.embed_all(tenant.id)
    return tenant.id


async def find(services: Services, tenant: UUID, words: str) -> list[str]:
    return [hit.content for hit in (await services.search.search(tenant, SearchQuery(words))).results]


async def search_on_replica(services: Services, tenant: UUID, words: str) -> list[str]:
    """The hits, once a replica serves the tenant."""
    async with asyncio.timeout(120):
        while True:
            with counting("replica") as served, counting("failed") as failed:
                found = await find(services, tenant, words)
            if served() and not failed():
                return found
            await asyncio.sleep(0.05)


async def test_searches_read_from_the_replica_and_find_the_same(services: Services) -> None:
    tenant = await make_tenant(services, "alike", "Moorings are inspected in March.", "The crane lifts twelve tons.")
    at_once = await find(services, tenant, "moorings")
    assert await search_on_replica(services, tenant, "moorings") == at_once


@pytest.mark.slow
async def test_each_write_is_found_at_once(services: Services) -> None:
    tenant = await make_tenant(services, "own-writes", "The first entry.")
    await search_on_replica(services, tenant, "first")
    for number in range(15):
        await services.entries.create_many(tenant, [EntryDraft(content=f"Quay number{number} is closed.")])
        assert f"Quay number{number} is closed." in await find(services, tenant, f"number{number}")
        await asyncio.sleep(0.07 * (number % 5))


async def test_a_tenant_that_writes_does_not_keep_others_on_the_primary(services: Services) -> None:
    writing, quiet = [await make_tenant(services, slug, "The quay is closed.") for slug in ("writing", "quiet")]
    await search_on_replica(services, quiet, "quay")
    await services.entries.create_many(writing, [EntryDraft(content="Another.")])
    with counting("replica") as served:
        await find(services, quiet, "quay")
    assert served() == 1


async def test_a_replica_that_lags_is_left_out_and_comes_back(services: Services, servers: ReplicatedDatabase) -> None:
    tenant = await make_tenant(services, "lagging", "The quay is closed.")
    await search_on_replica(services, tenant, "quay")
    await servers.on_replica("select pg_wal_replay_pause()")
    try:
        await execute(servers.primary.superuser_dsn, "select pg_switch_wal(); create table if not exists moves (n int)")
        await until(lambda: problems(services))
        assert problems(services) == [f"it is more than {STALENESS:g} s behind"]
        with counting("primary") as served:
            assert await find(services, tenant, "quay")
        assert served() == 1
    finally:
        await servers.on_replica("select pg_wal_replay_resume()")
    await search_on_replica(services, tenant, "quay")


async def test_a_read_that_fails_on_the_replica_is_repeated_on_the_primary(
    services: Services, servers: ReplicatedDatabase
) -> None:
    tenant = await make_tenant(services, "failing", "The quay is closed.")
    await search_on_replica(services, tenant, "quay")
    database, asked = services.database, []

    async def read() -> object:
        asked.append(current_replica())
        async with database.read_session(tenant) as session:
            if len(asked) == 1:
                await session.execute(WRITE)
            return await session.fetch_value(ENTRIES)

    with counting("failed") as failed:
        assert await database.reading(tenant, read) == 1
    assert [place is None for place in asked] == [False, True]
    assert failed() == 1


async def test_a_replica_shows_no_rows_of_other_tenants(services: Services, servers: ReplicatedDatabase) -> None:
    first = await make_tenant(services, "canary-a", "The canary of the first tenant sings.")
    second = await make_tenant(services, "canary-b", "Nothing sings here.")
    assert await search_on_replica(services, second, "canary sings") == ["Nothing sings here."]
    assert len(await search_on_replica(services, first, "canary sings")) == 1
    assert services.database.replicas is not None
    (replica,) = services.database.replicas.replicas
    async with replica.database.engine.connect() as pooled:  # one that searches have used
        driver = (await pooled.get_raw_connection()).driver_connection
        assert driver is not None
        assert await driver.fetchval("select current_setting('app.current_tenant', true)") in (None, "")
        assert await driver.fetchval("select count(*) from entries") == 0
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await driver.execute("delete from entries")


@pytest.mark.slow
async def test_an_address_of_another_database_is_never_used(
    servers: ReplicatedDatabase, fresh_database: TestDatabase
) -> None:
    for other, reason in (
        (fresh_database.service_dsn, "it is not a replica"),
        (servers.replica.address.dsn(database="postgres"), "it is not a replica of this primary"),
        (servers.replica.superuser_dsn, "row-level security"),
    ):
        async with serving(servers.primary, other) as services:
            await until(lambda: problems(services) not in ([], ["not asked yet"]))
            assert reason in problems(services)[0]
            tenant = await make_tenant(services, f"kept-{len(reason)}", "The quay is closed.")
            with counting("replica") as served:
                assert await find(services, tenant, "quay")
            assert not served()
