"""A database or role that is unfit to serve stops the start, with one line that names the remedy."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import create_async_engine

from app.composition.database import PREPARATION_LOCK, SERVICE, check_database, open_database, prepare
from app.composition.providers import find_models
from app.composition.services import Services, build_services
from app.contract.administration import NewTenant, Tenant
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.schema import catalog
from app.db.schema.catalog import OWN_PID, Pooler, check_pooler, find_pooler
from app.db.schema.owner import register_model
from app.embedded import DATABASE, EmbeddedAddress
from app.embeddings.provider import EmbeddingModel, resolve_model
from app.embeddings.providers.mock import MockProvider
from app.errors import ConfigurationError, DatabaseUnavailable
from app.settings import DatabaseSettings, Settings
from tests.fixtures.database.bouncer import bounced
from tests.fixtures.database.cluster import MODEL, PASSWORDS, TestDatabase, connected, execute, new_database
from tests.fixtures.providers.failing import FailingProvider


@asynccontextmanager
async def login_role(database: TestDatabase, attributes: str, *grants: str) -> AsyncIterator[str]:
    """The address of a role that exists for one test."""
    async with connected(database.superuser_dsn) as superuser:
        await superuser.execute(f"create role kb_tester login password 'tester-password' {attributes}")
        try:
            for grant in grants:
                await superuser.execute(f"grant {grant} to kb_tester")
            yield database.address.dsn("kb_tester", database.name, "tester-password")
        finally:
            await superuser.execute("drop role kb_tester")


async def refusal(dsn: str) -> str:
    """The one line with which the check of this address ends."""
    with pytest.raises(ConfigurationError) as caught:
        await check_database(dsn)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith("DATABASE_URL: ")
    assert "password" not in line or "user name or password" in line
    return line


async def test_service_role_is_fit(service_dsn: str) -> None:
    await check_database(service_dsn)


TERMINATE = "select pg_terminate_backend($1, 5000)"


async def test_a_connection_that_ends_during_a_query_is_an_absent_database(service_dsn: str) -> None:
    async def work() -> None:
        async with catalog.using(await catalog.connect(service_dsn, "DATABASE_URL")) as connection:
            await connection.fetchval(TERMINATE, connection.get_server_pid())

    with pytest.raises(DatabaseUnavailable) as caught:
        await work()
    assert isinstance(caught.value.__cause__, asyncpg.PostgresError)


async def test_a_connection_that_ended_before_a_query_is_an_absent_database(
    service_dsn: str, superuser_dsn: str
) -> None:
    async def work() -> None:
        async with catalog.using(await catalog.connect(service_dsn, "DATABASE_URL")) as connection:
            await execute(superuser_dsn, TERMINATE, connection.get_server_pid())
            while not connection.is_closed():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await connection.fetchval("select 1")

    with pytest.raises(DatabaseUnavailable) as caught:
        await work()
    assert isinstance(caught.value.__cause__, asyncpg.InterfaceError)


async def test_an_error_of_a_statement_is_not_an_absent_database(service_dsn: str) -> None:
    connection = await catalog.connect(service_dsn, "DATABASE_URL")

    async def divide() -> None:
        async with catalog.using(connection):
            await connection.fetchval("select 1 / 0")

    with pytest.raises(asyncpg.DivisionByZeroError):
        await divide()
    assert connection.is_closed()


async def test_superuser_is_refused(superuser_dsn: str) -> None:
    line = await refusal(superuser_dsn)
    assert "postgres is a superuser" in line
    assert "use another" in line


async def test_bypassrls_is_refused(fresh_database: TestDatabase) -> None:
    async with login_role(fresh_database, "bypassrls", "kb_app") as dsn:
        assert "run: alter role kb_tester nobypassrls" in await refusal(dsn)


async def test_table_owner_is_refused(admin_dsn: str) -> None:
    assert "kb_migrator owns the table" in await refusal(admin_dsn)


async def test_member_of_the_table_owner_is_refused(fresh_database: TestDatabase) -> None:
    async with login_role(fresh_database, "noinherit", "kb_app", "kb_migrator") as dsn:
        assert "kb_tester owns the table" in await refusal(dsn)


@pytest.mark.parametrize("role", ["kb_keyword", "kb_queue", "postgres"])
async def test_member_of_a_stronger_role_is_refused(fresh_database: TestDatabase, role: str) -> None:
    async with login_role(fresh_database, "", "kb_app", role) as dsn:
        line = await refusal(dsn)
    assert f"member of {role}" in line or "owns the table" in line


@pytest.mark.parametrize(("attributes", "grants"), [("", ()), ("noinherit", ("kb_app",))])
async def test_role_without_the_rights_is_refused(
    fresh_database: TestDatabase, attributes: str, grants: tuple[str, ...]
) -> None:
    async with login_role(fresh_database, attributes, *grants) as dsn:
        assert "run: knowledge migrate --service-role kb_tester" in await refusal(dsn)


async def test_empty_database_is_refused(cluster: EmbeddedAddress, template: str) -> None:
    async with new_database(cluster) as empty:
        assert "create extension vector" in await refusal(empty.service_dsn)
        await execute(empty.superuser_dsn, "create extension vector")
        assert "empty; run: knowledge migrate" in await refusal(empty.service_dsn)


@pytest.mark.slow
async def test_database_whose_first_migration_failed_is_refused(cluster: EmbeddedAddress, template: str) -> None:
    async with new_database(cluster) as empty:
        async with connected(empty.superuser_dsn) as superuser:
            await superuser.execute("create extension vector")
            await superuser.execute("create schema queue")
        with pytest.raises(asyncpg.DuplicateSchemaError):
            await prepare(empty.admin_dsn, service_role=None, model=None)
        assert "empty; run: knowledge migrate" in await refusal(empty.service_dsn)


async def test_role_that_cannot_read_the_revision_is_refused(fresh_database: TestDatabase) -> None:
    await execute(fresh_database.superuser_dsn, "revoke select on alembic_version from kb_reader")
    assert "run: grant select on alembic_version to kb_reader" in await refusal(fresh_database.service_dsn)


async def test_invalid_addresses_are_refused_without_quoting_them(
    fresh_database: TestDatabase, tmp_path_factory: pytest.TempPathFactory
) -> None:
    address = fresh_database.address
    assert "user name or password" in await refusal(address.dsn("kb_service", fresh_database.name, "wrong-secret"))
    assert "no such database" in await refusal(address.dsn("kb_service", "nowhere", "service-password"))
    line = await refusal(f"postgresql://kb_service:secret@/x?host={tmp_path_factory.mktemp('nowhere')}")
    assert "cannot connect" in line
    assert "secret" not in line
    assert "nowhere" not in line


async def test_preparing_for_a_missing_role_is_refused(admin_dsn: str) -> None:
    with pytest.raises(ConfigurationError, match="--service-role: there is no role kb_missing"):
        await prepare(admin_dsn, service_role="kb_missing", model=None)


async def test_migrating_without_the_right_to_create_is_refused(cluster: EmbeddedAddress, template: str) -> None:
    async with new_database(cluster) as empty:
        await execute(empty.superuser_dsn, "create extension vector")
        with pytest.raises(ConfigurationError, match=r"DATABASE_ADMIN_URL: .* see deploy/roles.sql"):
            await prepare(empty.service_dsn, service_role=None, model=None)


async def test_unregistered_model_is_refused(database: Database) -> None:
    with pytest.raises(ConfigurationError, match=r"mock/text-hash with 24 dimensions is not registered; run: "):
        await build_services(database, MockProvider(resolve_model("mock", dimensions=24)))


async def test_a_model_of_no_known_provider_is_registered_by_its_program(database: Database) -> None:
    own = FailingProvider(EmbeddingModel("acme", "letters", 26))
    with pytest.raises(ConfigurationError, match=r"acme/letters .* is not registered; call: await register_model\("):
        await build_services(database, own)


async def test_tenant_on_another_model_is_refused(
    services: Services, tenant: Tenant, fresh_database: TestDatabase
) -> None:
    other = resolve_model("mock", dimensions=24)
    await register_model(fresh_database.admin_dsn, other)
    await services.entries.create(tenant.id, EntryDraft(content="a fact"))
    with pytest.raises(ConfigurationError, match="tenant first has vectors of mock/text-hash with 16 dimensions"):
        await find_models(services.database, [other])
    assert await find_models(services.database, [MODEL]) == [1]
    await services.tenants.delete(tenant.id, actor="test")
    await build_services(services.database, FailingProvider(other))


async def test_a_tenant_without_entries_gets_the_model_that_is_served(
    services: Services, tenant: Tenant, fresh_database: TestDatabase
) -> None:
    other = resolve_model("mock", dimensions=24)
    await register_model(fresh_database.admin_dsn, other)
    moved = await build_services(services.database, FailingProvider(other))
    assert (await moved.tenants.context(tenant.id)).model == other
    entry, _ = await moved.entries.create(tenant.id, EntryDraft(content="a fact"))
    assert entry.embedding_status == "ready"
    found = await moved.search.search(tenant.id, SearchQuery("a fact", mode="semantic"))
    assert [hit.id for hit in found] == [entry.id]


async def test_both_models_are_served_while_tenants_move(
    services: Services, tenant: Tenant, fresh_database: TestDatabase
) -> None:
    other = resolve_model("mock", dimensions=24)
    with pytest.raises(
        ConfigurationError, match=r"^EMBEDDING_NEXT_PROVIDER: .* 24 dimensions is not registered; run: .* --next$"
    ):
        await build_services(services.database, FailingProvider(MODEL), next_provider=MockProvider(other))
    await register_model(fresh_database.admin_dsn, other)
    await services.entries.create(tenant.id, EntryDraft(content="a fact"))
    both = await build_services(services.database, FailingProvider(other), next_provider=FailingProvider(MODEL))
    assert sorted(both.providers) == [1, 2]
    await both.tenants.create(NewTenant("newcomer"), actor="test")
    assert (await both.tenants.context((await both.tenants.find("newcomer")).id)).model == other
    assert (await both.tenants.context(tenant.id)).model == MODEL
    with pytest.raises(ConfigurationError, match="tenant first has vectors of"):
        await find_models(services.database, [other])
    with pytest.raises(ConfigurationError, match="must name another model than EMBEDDING_PROVIDER"):
        await build_services(services.database, FailingProvider(MODEL), next_provider=MockProvider(MODEL))


async def test_a_lent_engine_of_a_superuser_is_refused(fresh_database: TestDatabase) -> None:
    dsn = fresh_database.superuser_dsn
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://", 1))
    with pytest.raises(ConfigurationError, match=r"^engine: the role postgres is a superuser"):
        await build_services(Database(dsn, engine=engine), FailingProvider(MODEL))
    await engine.dispose()


@pytest.mark.parametrize("attributes", ["superuser", "bypassrls"])
async def test_a_lent_database_whose_role_bypasses_policies_is_refused(
    fresh_database: TestDatabase, attributes: str
) -> None:
    async with login_role(fresh_database, attributes, "kb_app") as dsn:
        database = Database(dsn)
        with pytest.raises(ConfigurationError, match=r"^DATABASE_URL: the role kb_tester (is a superuser|has BY)"):
            await build_services(database, FailingProvider(MODEL))
        await database.close()


async def test_the_service_creates_no_temporary_tables_and_large_objects(cluster: EmbeddedAddress) -> None:
    async with connected(cluster.dsn(SERVICE, DATABASE, PASSWORDS[SERVICE])) as service:
        for sql in (
            "create temporary table notes ()",
            "select lo_create(0)",
            "select lo_creat(0)",
            "select lo_from_bytea(0, 'text')",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await service.execute(sql)


async def test_changed_functions_are_loaded_again_by_migrate(fresh_database: TestDatabase) -> None:
    """After a downgrade, functions are still those of the newer version."""
    async with connected(fresh_database.superuser_dsn) as superuser:
        await superuser.execute("""
            create or replace function keyword.derived_entries(p_source uuid, p_limit integer)
            returns table (entry_id uuid) language sql as 'select null::uuid';
            create or replace function spaced_text(content text) returns text language sql return content""")
    assert "function keyword.derived_entries(uuid,integer) differs" in await refusal(fresh_database.service_dsn)
    await prepare(fresh_database.admin_dsn, service_role=None, model=None)
    await check_database(fresh_database.service_dsn)


ROOT = Path(__file__).parents[3]
LOCKED = f"select count(*) from pg_locks where locktype = 'advisory' and objid = {PREPARATION_LOCK & 0xFFFFFFFF}"


async def test_the_database_itself_is_not_a_pooler(fresh_database: TestDatabase) -> None:
    assert await find_pooler(fresh_database.service_dsn, "DATABASE_URL") is None


async def test_a_pooler_that_keeps_a_connection_for_each_client_counts_as_none(fresh_database: TestDatabase) -> None:
    async with bounced(fresh_database, connections=4, mode="session") as dsn:
        assert await find_pooler(dsn, "DATABASE_URL") is None


@pytest.mark.parametrize("connections", [1, 3])
@pytest.mark.parametrize("prepared", [False, True])
async def test_a_pooler_that_shares_connections_is_recognized(
    fresh_database: TestDatabase, connections: int, prepared: bool
) -> None:
    async with bounced(fresh_database, connections, prepared=prepared) as dsn:
        for _ in range(3):
            assert await find_pooler(dsn, "DATABASE_URL") == Pooler(keeps_prepared=prepared)


@contextlib.asynccontextmanager
async def busy(dsn: str, clients: int) -> AsyncIterator[None]:
    """Clients that use the address all the time."""

    async def use() -> None:
        client = await asyncpg.connect(dsn, statement_cache_size=0)
        try:
            while True:
                await client.execute("select pg_sleep(0.002)")
        finally:
            client.terminate()

    using = [asyncio.create_task(use()) for _ in range(clients)]
    try:
        yield
    finally:
        for task in using:
            task.cancel()
        await asyncio.wait(using)


@pytest.mark.parametrize("prepared", [False, True])
async def test_a_busy_pooler_is_recognized(fresh_database: TestDatabase, prepared: bool) -> None:
    async with bounced(fresh_database, 3, prepared=prepared) as dsn, busy(dsn, 6):
        for _ in range(5):
            assert await find_pooler(dsn, "DATABASE_URL") == Pooler(keeps_prepared=prepared)


async def test_prepared_statements_are_refused_if_the_pooler_loses_them(fresh_database: TestDatabase) -> None:
    async with bounced(fresh_database, 3) as dsn:
        await check_pooler(dsn, prepared=False)
        with pytest.raises(ConfigurationError, match=r"DATABASE_PREPARED_STATEMENTS: .* set it to off"):
            await check_pooler(dsn, prepared=True)
        settings = Settings(database=DatabaseSettings(url=SecretStr(dsn)))
        with pytest.raises(ConfigurationError, match=r"set it to off"):
            async with open_database(settings):
                pass


async def test_prepared_statements_are_accepted_if_the_pooler_keeps_them(fresh_database: TestDatabase) -> None:
    async with bounced(fresh_database, 3, prepared=True) as dsn:
        await check_pooler(dsn, prepared=True)


async def test_the_check_of_the_start_passes_through_a_pooler_that_others_have_used(
    fresh_database: TestDatabase,
) -> None:
    """Statements that another process prepared stay on the shared connection, under the names that all use."""
    program = "import asyncio, sys; from app.composition.database import check_database as check;"
    async with bounced(fresh_database, 1) as dsn:
        for _ in range(2):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", f"{program} asyncio.run(check(sys.argv[1]))", dsn, cwd=ROOT
            )
            assert await process.wait() == 0


async def test_migrations_refuse_a_pooler_and_leave_no_lock(fresh_database: TestDatabase) -> None:
    async with bounced(fresh_database, 2) as dsn:
        with pytest.raises(ConfigurationError, match=r"DATABASE_ADMIN_URL: .* the address of the database itself"):
            await prepare(dsn, service_role=None, model=None)
        async with connected(fresh_database.superuser_dsn) as superuser:
            assert await superuser.fetchval(LOCKED) == 0
            assert await superuser.fetchval(OWN_PID) == superuser.get_server_pid()
