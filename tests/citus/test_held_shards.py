"""While a move holds a shard, its tenants wait for it, and those of other shards of the node notice nothing."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import NewTenant
from app.contract.entries import EntryDraft
from app.db.cluster import sessions
from app.db.cluster.sessions import FoundPlace, Place, find_place
from app.db.database import Database
from app.db.queries.jobs import JobKind, claim_job, count_jobs, enqueue_job
from app.db.server import Server
from app.errors import DatabaseUnavailable
from tests.fixtures.database.citus import CitusDatabase
from tests.fixtures.database.cluster import MODEL, connected
from tests.fixtures.providers.failing import FailingProvider

pytestmark = pytest.mark.slow

MOST_TENANTS = 64
"""So many are hardly ever all in one group of each node."""
PATIENCE = 1.5
CALLERS = 8
KIND: JobKind = "embed_entries"
MINUTE = timedelta(minutes=1)
ALL_NODES = 3


@pytest.fixture
async def database(citus_database: CitusDatabase) -> AsyncIterator[Database]:
    made = Database(citus_database.coordinator.service_dsn, pool_size=4, connect_timeout=PATIENCE)
    yield made
    await made.close()


@pytest.fixture
async def services(database: Database) -> AsyncIterator[Services]:
    made = await build_services(database, FailingProvider(MODEL))
    yield made
    await made.close()


@pytest.fixture
async def neighbours(database: Database, services: Services) -> AsyncIterator[tuple[UUID, UUID]]:
    """Two tenants of different shards on one node."""
    assert database.nodes is not None
    places: dict[UUID, Place] = {}
    pair: tuple[UUID, UUID] | None = None
    while pair is None:
        assert len(places) < MOST_TENANTS
        made = (await services.tenants.create(NewTenant(f"held-{len(places)}"), actor="test")).id
        place = places[made] = await database.nodes.place_of(made)
        pair = next(
            ((one, made) for one, at in places.items() if at.node is place.node and at.group != place.group), None
        )
    for tenant_id in pair:
        await services.entries.create(tenant_id, EntryDraft(content="The tide table is late."))
    yield pair
    for tenant_id in places:
        await services.tenants.delete(tenant_id, actor="test")


@asynccontextmanager
async def held(citus_database: CitusDatabase, database: Database, tenant_id: UUID) -> AsyncIterator[None]:
    """The shard as in the last moment of a move: Citus has its lock."""
    assert database.nodes is not None
    place = await database.nodes.place_of(tenant_id)
    (node,) = [worker for worker in citus_database.workers if f":{worker.address.port}/" in place.node.dsn]
    async with connected(node.superuser_dsn) as superuser, superuser.transaction():
        await superuser.execute("select lock_shard_metadata(7, array[$1::bigint])", place.group)
        yield


async def test_tenants_of_other_shards_are_served_while_one_is_held(
    citus_database: CitusDatabase, database: Database, services: Services, neighbours: tuple[UUID, UUID]
) -> None:
    moving, other = neighbours
    async with held(citus_database, database, moving):
        callers = [asyncio.create_task(_outcome(services, moving)) for _ in range(CALLERS)]
        await asyncio.sleep(0.1)
        while not all(caller.done() for caller in callers):
            started = time.monotonic()
            assert (await services.entries.list_entries(other)).items
            assert time.monotonic() - started < PATIENCE
            await asyncio.sleep(0.05)
    assert {await caller for caller in callers} == {"the tenant is being moved"}
    assert (await services.entries.list_entries(moving)).items


async def test_a_caller_waits_for_the_end_of_a_move(
    citus_database: CitusDatabase, database: Database, services: Services, neighbours: tuple[UUID, UUID]
) -> None:
    moving, _ = neighbours
    async with held(citus_database, database, moving):
        caller = asyncio.create_task(_outcome(services, moving))
        await asyncio.sleep(PATIENCE / 2)
        assert not caller.done()
    assert await caller == "served"


async def test_workers_pass_over_a_shard_that_is_held(
    citus_database: CitusDatabase, database: Database, neighbours: tuple[UUID, UUID]
) -> None:
    moving, other = neighbours
    for tenant_id in neighbours:
        async with database.tenant_session(tenant_id) as session:
            await enqueue_job(session, KIND, "", timedelta())
    async with held(citus_database, database, moving), asyncio.timeout(PATIENCE * 2):
        claimed = [await claim_job(database, [KIND], MINUTE) for _ in range(2)]
        figures = await count_jobs(database)
    assert [job and job.tenant_id for job in claimed] == [other, None]
    assert sum(known.waiting for known in figures if known.kind == KIND) == 0
    last = await claim_job(database, [KIND], MINUTE)
    assert last is not None
    assert last.tenant_id == moving


async def test_a_lookup_that_finds_no_node_while_a_division_ends_is_repeated(
    database: Database, services: Services, neighbours: tuple[UUID, UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    missed = 0

    async def miss_once(node: Server, tenant_id: UUID) -> FoundPlace | None:
        nonlocal missed
        found = await find_place(node, tenant_id)
        missed += 1
        return None if missed <= ALL_NODES else found

    monkeypatch.setattr(sessions, "find_place", miss_once)
    assert database.nodes is not None
    database.nodes._of_tenants.clear()
    assert (await services.entries.list_entries(neighbours[0])).items
    assert missed > ALL_NODES


async def _outcome(services: Services, tenant_id: UUID) -> str:
    try:
        await services.entries.list_entries(tenant_id)
    except DatabaseUnavailable as error:
        return str(error)
    return "served"
