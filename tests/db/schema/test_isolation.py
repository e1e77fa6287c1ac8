"""Every tenant table, every command: the policies alone separate tenants, without a condition in the query."""

from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from app.db.rows import new_id
from tests.fixtures.database.cluster import PARTITIONS, Connection, connected
from tests.fixtures.database.seeded import Seeded

Counts = dict[str, dict[UUID, int]]

APPEND_ONLY = ("audit",)
WRITABLE_COLUMNS = """
select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
 where attrelid = $1::text::regclass and attnum > 0 and not attisdropped and attgenerated = '' and attidentity = ''"""


@pytest.fixture
async def counts(seeded: Seeded) -> Counts:
    """The real number of each tenant's rows in each table."""
    async with connected(seeded.database.superuser_dsn) as superuser:
        return {
            table: {
                row["tenant_id"]: row["n"]
                for row in await superuser.fetch(f"select tenant_id, count(*) as n from {table} group by 1")
            }
            for table in seeded.tables
        }


@pytest.fixture
async def service(seeded: Seeded) -> AsyncIterator[Connection]:
    """A connection as kb_service."""
    async with connected(seeded.database.service_dsn) as connection:
        yield connection


async def choose_tenant(connection: Connection, tenant: UUID | None) -> None:
    await connection.execute(
        "select set_config('app.current_tenant', $1, true), set_config('app.current_principals', '{*,everyone}', true)",
        "" if tenant is None else str(tenant),
    )


async def count_touched(connection: Connection, sql: str) -> int:
    """The number of rows that a command touches; its changes are undone."""
    undo = connection.transaction()
    await undo.start()
    try:
        status = await connection.execute(sql)
    finally:
        await undo.rollback()
    return int(status.rpartition(" ")[2])


async def insert_copy(connection: Connection, table: str, row: str, columns: str) -> None:
    async with connection.transaction():
        await connection.execute(
            f"insert into {table} ({columns}) select {columns} from jsonb_populate_record(null::{table}, $1::jsonb)",
            row,
        )


async def read_row(seeded: Seeded, table: str, tenant: UUID) -> tuple[str, str]:
    """One row of a tenant as JSON, and the writable columns."""
    async with connected(seeded.database.superuser_dsn) as superuser:
        row = await superuser.fetchval(f"select to_jsonb(t) from {table} t where tenant_id = $1 limit 1", tenant)
        return row, await superuser.fetchval(WRITABLE_COLUMNS, table)


async def test_seed_has_rows_of_both_tenants_in_every_tenant_table(seeded: Seeded, counts: Counts) -> None:
    assert len(seeded.tables) >= 13
    for table in seeded.tables:
        assert counts[table].get(seeded.first), f"{table} has no seed: add one to tenant_rows.py"
        assert counts[table].get(seeded.second), f"{table} has no seed: add one to tenant_rows.py"


@pytest.mark.parametrize("who", ["first", "second", "none", "unset"])
async def test_select_shows_only_rows_of_the_current_tenant(
    seeded: Seeded, counts: Counts, service: Connection, who: str
) -> None:
    tenant = {"first": seeded.first, "second": seeded.second}.get(who)
    async with service.transaction():
        if who != "unset":
            await choose_tenant(service, tenant)
        for table in seeded.tables:
            rows = await service.fetch(f"select tenant_id from {table}")
            assert {row["tenant_id"] for row in rows} == ({tenant} if tenant else set()), table
            assert len(rows) == (counts[table][tenant] if tenant else 0), table


async def test_select_shows_nothing_after_the_transaction(seeded: Seeded, service: Connection) -> None:
    async with service.transaction():
        await choose_tenant(service, seeded.first)
        assert await service.fetchval("select count(*) from entries") > 0
    for table in seeded.tables:
        assert await service.fetchval(f"select count(*) from {table}") == 0, table


@pytest.mark.parametrize("who", ["first", "none"])
async def test_insert_of_another_tenants_row_is_refused(seeded: Seeded, service: Connection, who: str) -> None:
    for table in seeded.tables:
        row, columns = await read_row(seeded, table, seeded.second)
        async with service.transaction():
            await choose_tenant(service, seeded.first if who == "first" else None)
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                await insert_copy(service, table, row, columns)


async def test_insert_of_an_own_row_is_allowed(seeded: Seeded, service: Connection) -> None:
    for table in seeded.tables:
        row, columns = await read_row(seeded, table, seeded.first)
        undo = service.transaction()
        await undo.start()
        await choose_tenant(service, seeded.first)
        if table in APPEND_ONLY:
            row = await service.fetchval("select $1::jsonb || jsonb_build_object('id', $2::uuid)", row, new_id())
        else:
            await service.execute(
                f"delete from {table} t where to_jsonb(t) @> ($1::jsonb - 'metadata' - 'receipt')", row
            )
        await insert_copy(service, table, row, columns)
        await undo.rollback()


@pytest.mark.parametrize("command", ["update {} set tenant_id = tenant_id", "delete from {}"], ids=["update", "delete"])
async def test_a_change_touches_only_rows_of_the_current_tenant(
    seeded: Seeded, counts: Counts, service: Connection, command: str
) -> None:
    for tenant in (seeded.first, seeded.second, None):
        async with service.transaction():
            await choose_tenant(service, tenant)
            for table in seeded.tables:
                if table in APPEND_ONLY:
                    continue
                touched = await count_touched(service, command.format(table))
                assert touched == (counts[table][tenant] if tenant else 0), table


async def test_update_cannot_move_a_row_to_another_tenant(seeded: Seeded, service: Connection) -> None:
    async with service.transaction():
        await choose_tenant(service, seeded.first)
        for table in seeded.tables:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await count_touched(service, f"update {table} set tenant_id = '{seeded.second}'")


@pytest.mark.parametrize("command", ["update {} set actor = 'other'", "delete from {}", "truncate {}"])
async def test_audit_trail_cannot_be_changed(seeded: Seeded, service: Connection, command: str) -> None:
    async with service.transaction():
        await choose_tenant(service, seeded.first)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.execute(command.format("audit"))


async def test_partitions_cannot_be_read_or_written_directly(seeded: Seeded, service: Connection) -> None:
    partitions = await service.fetch(
        "select oid::regclass::text as name from pg_class where relispartition and relkind = 'r'"
    )
    assert len(partitions) == 2 * PARTITIONS
    for partition in partitions:
        for sql in ("select count(*) from {}", "delete from {}"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await service.execute(sql.format(partition["name"]))


async def test_tenants_table_shows_and_changes_only_the_own_row(seeded: Seeded, service: Connection) -> None:
    assert await service.fetch("select id from tenants") == []
    async with service.transaction():
        await choose_tenant(service, seeded.first)
        assert [row["id"] for row in await service.fetch("select id from tenants")] == [seeded.first]
        assert await count_touched(service, "update tenants set name = 'renamed'") == 1
        assert await count_touched(service, f"update tenants set name = 'x' where id = '{seeded.second}'") == 0


@pytest.mark.parametrize(
    "sql",
    [
        "delete from tenants",
        "update tenants set id = gen_random_uuid()",
        "update tenants set slug = 'mine'",
        "insert into tenants (id, slug, name, model_id) values (gen_random_uuid(), 'x', 'x', 1)",
        "select * from platform_audit",
        "insert into embedding_models (provider, name, dimensions, max_tokens, similarity_threshold)"
        " values ('x', 'x', 1, 1, 0)",
        "update embedding_models set name = 'x'",
        "update alembic_version set version_num = 'x'",
    ],
)
async def test_shared_tables_are_closed_to_the_service(seeded: Seeded, service: Connection, sql: str) -> None:
    async with service.transaction():
        await choose_tenant(service, seeded.first)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.execute(sql)


async def test_references_to_another_tenants_rows_are_refused(seeded: Seeded, service: Connection) -> None:
    foreign = await first_entry(seeded, seeded.second)
    async with service.transaction():
        await choose_tenant(service, seeded.first)
        for column in ("parent_id", "superseded_by_id"):
            with pytest.raises(asyncpg.ForeignKeyViolationError):
                await count_touched(service, f"update entries set {column} = '{foreign}'")


async def test_the_same_keys_can_exist_in_two_tenants(seeded: Seeded, service: Connection) -> None:
    """A unique key without the tenant would reveal another tenant's data."""
    foreign = await first_entry(seeded, seeded.second)
    async with service.transaction():
        await choose_tenant(service, seeded.first)
        await service.execute(
            "insert into entries (tenant_id, id, entry_type, content, language, content_hash, text_hash)"
            " values ($1, $2, 'fact', 'twin', 'english', '', '')",
            seeded.first,
            foreign,
        )
        assert await service.fetchval("select content from entries where id = $1", foreign) == "twin"


async def first_entry(seeded: Seeded, tenant: UUID) -> UUID:
    async with connected(seeded.database.superuser_dsn) as superuser:
        entry_id: UUID = await superuser.fetchval("select id from entries where tenant_id = $1 limit 1", tenant)
        return entry_id


async def test_the_table_owner_sees_no_tenants_rows(seeded: Seeded) -> None:
    async with connected(seeded.database.admin_dsn) as owner:
        for table in seeded.tables:
            assert await owner.fetchval(f"select count(*) from {table}") == 0, table
