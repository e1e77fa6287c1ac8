"""The isolation of tenants on the nodes of a cluster: the shards themselves, and direct logins to a worker."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import NewTenant
from app.contract.search import SearchQuery
from app.db.cluster.sessions import Place
from app.db.database import Database
from app.db.statements import parse_statement
from tests.fixtures.database.citus import CitusDatabase
from tests.fixtures.database.cluster import MODEL, TestDatabase, connected
from tests.fixtures.database.tenant_rows import fill_tenant
from tests.fixtures.providers.failing import FailingProvider
from tests.isolation.matrix import COMMANDS, ROLE, SETTINGS, Relation, probe_matrix

pytestmark = pytest.mark.slow

SHARDS = """
    select n.shard as name, t.attname as tenant_column, false as is_partition,
           case when n.name = 'tenants' then 'name' else t.attname end as update_column,
           (select string_agg(quote_ident(w.attname), ', ' order by w.attnum) from pg_attribute w
             where w.attrelid = t.attrelid and w.attnum > 0 and not w.attisdropped and w.attgenerated = ''
               and w.attidentity = '') as columns
      from shards.names($1) n
      join pg_attribute t on t.attrelid = to_regclass('public.' || n.shard) and not t.attisdropped
                         and t.attname = case n.name when 'tenants' then 'id' else 'tenant_id' end
     order by 1"""

COUNT = parse_statement("count", "select count(*) from entries where tenant_id = :other")
COUNT_ALL = parse_statement("count_all", "select count(*) from entries")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tenants of the same group of shards, with rows in every table, and the node that holds them."""

    services: Services
    first: UUID
    second: UUID
    place: Place
    node: TestDatabase
    elsewhere: TestDatabase


@pytest.fixture(scope="module")
async def pair(citus_database: CitusDatabase) -> AsyncIterator[Pair]:
    provider = FailingProvider(MODEL)
    database = Database(citus_database.coordinator.service_dsn, pool_size=4)
    services = await build_services(database, provider)
    assert database.nodes is not None
    made: dict[int, UUID] = {}
    for number in range(20):
        tenant = await services.tenants.create(NewTenant(f"pair-{number}"), actor="test")
        place = await database.nodes.place_of(tenant.id)
        if (other := made.get(place.group)) is not None:
            break
        made[place.group] = tenant.id
    else:
        pytest.fail("no two tenants are in the same group")
    for tenant in await services.tenants.list_tenants():
        if tenant.id in (other, tenant.id) and (await database.nodes.place_of(tenant.id)).group == place.group:
            await fill_tenant(services, tenant, provider, citus_database.coordinator.superuser_dsn)
    port = int(place.node.dsn.rpartition(":")[2].partition("/")[0])
    node = next(n for n in citus_database.workers if n.address.port == port)
    elsewhere = next(n for n in citus_database.workers if n.address.port != port)
    yield Pair(services, other, tenant.id, place, node, elsewhere)
    for tenant in await services.tenants.list_tenants():
        await services.tenants.delete(tenant.id, actor="test")
    await services.close()
    await database.close()


@pytest.mark.parametrize("granted", [False, True], ids=["as granted", "with every right granted"])
async def test_matrix_of_shards_reaches_only_the_current_tenant(pair: Pair, granted: bool) -> None:
    """Every table's shard, every command, on a direct login to the worker."""
    async with connected(pair.node.superuser_dsn) as superuser:
        relations = [Relation(**row) for row in await superuser.fetch(SHARDS, pair.place.group)]
        assert len(relations) > 20
        transaction = superuser.transaction()
        await transaction.start()
        if granted:
            for relation in relations:
                await superuser.execute(f"grant select, insert, update, delete on {relation.name} to {ROLE}")
        cells, faults = await probe_matrix(superuser, pair.first, pair.second, relations)
        await transaction.rollback()
    assert faults == []
    assert cells == len(relations) * len(COMMANDS) * len(SETTINGS)


@pytest.mark.parametrize("where", ["node", "elsewhere", "coordinator"])
async def test_a_direct_login_sees_no_rows_without_a_tenant(
    pair: Pair, citus_database: CitusDatabase, where: str
) -> None:
    database = {"node": pair.node, "elsewhere": pair.elsewhere}.get(where, citus_database.coordinator)
    async with connected(database.service_dsn) as login:
        await login.execute("set citus.override_table_visibility = off")
        tables = await login.fetch(
            "select c.oid::regclass::text as name from pg_class c join pg_attribute a on a.attrelid = c.oid"
            " where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'"
            " and (a.attname = 'tenant_id' or a.attname = 'id' and c.relname ~ '^tenants(_[0-9]+)?$')"
        )
        assert len(tables) > 20
        for table in tables:
            assert await login.fetchval(f"select count(*) from {table['name']}") == 0, table["name"]


@pytest.mark.parametrize("where", ["node", "elsewhere", "coordinator"])
async def test_a_tenant_set_on_any_node_sees_only_its_rows(
    pair: Pair, citus_database: CitusDatabase, where: str
) -> None:
    """Through Citus, which sends the tenant along with its statements."""
    database = {"node": pair.node, "elsewhere": pair.elsewhere}.get(where, citus_database.coordinator)
    async with connected(database.service_dsn) as login:
        await login.execute("set citus.propagate_set_commands = 'local'")
        await login.execute("begin")
        await login.execute(f"set local app.current_tenant = '{pair.first}'")
        seen = await login.fetch("select distinct tenant_id from entries")
        assert [row["tenant_id"] for row in seen] == [pair.first]
        assert await login.execute("delete from entries where tenant_id = $1", pair.second) == "DELETE 0"
        await login.execute("rollback")
        assert await login.fetchval("select count(*) from entries") == 0


async def test_a_session_reads_nothing_of_a_tenant_of_the_same_group(pair: Pair) -> None:
    database = pair.services.database
    async with database.tenant_session(pair.first) as session:
        assert await session.fetch_value(COUNT, other=pair.second) == 0
        own = await session.fetch_value(COUNT_ALL)
    assert own > 0
    found = await pair.services.search.search(pair.first, SearchQuery(query="harbour"))
    ids = {hit.id for hit in found.results}
    other = await pair.services.search.search(pair.second, SearchQuery(query="harbour"))
    assert ids
    assert ids.isdisjoint(hit.id for hit in other.results)


async def test_a_session_at_the_place_of_another_group_sees_nothing(pair: Pair) -> None:
    """If a tenant's place were wrong, it would see no rows instead of others'."""
    database = pair.services.database
    assert database.nodes is not None
    for number in range(64):
        place = await database.nodes.place_of(UUID(int=number))
        if place.group != pair.place.group:
            break
    for at, tenant in ((place, pair.first), (pair.place, UUID(int=number))):
        async with at.node.open_tenant(tenant, entrance=at.entrance, write=at.write) as session:
            assert await session.fetch_value(COUNT_ALL) == 0
