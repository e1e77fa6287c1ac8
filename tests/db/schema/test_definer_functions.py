"""Functions of a definer."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from tests.fixtures.database.cluster import Connection, connected, execute, fetch
from tests.fixtures.database.hostile import HOSTILE
from tests.fixtures.database.seeded import Seeded

SEARCH = """
select entry_id from keyword.search(
  current_tenant(), $1::text[], array_fill('english'::text, array[cardinality($1::text[])]),
  array_fill(null::integer, array[cardinality($1::text[])]), 100, 40, null, 100, 1000)"""
FILTERED = """
select keyword.filtered_ids(jsonb_populate_record(null::entry_filter, jsonb_build_object($1::text, {})), 100)"""
CALLS = [
    "select * from keyword.search(current_tenant(), '{harbour}', '{english}', '{null}', 10, 40, null, 10, 100)",
    "select keyword.filtered_ids(null, 10)",
    "select keyword.former_ids(null, 10)",
    "select keyword.matched_queries(current_tenant(), null, '{harbour}')",
    "select keyword.entries_with_parts(current_tenant(), 'arbour', 10)",
    "select * from keyword.tag_overlaps('{sea,night}', gen_random_uuid(), 10)",
    "select * from keyword.derived_entries(gen_random_uuid(), 10)",
    "select * from keyword.matching_entries('{harbour}', '{english}', null, null, null, null, 10)",
]


@pytest.fixture
async def service(seeded: Seeded) -> AsyncIterator[Connection]:
    """A connection as kb_service in a transaction that is undone."""
    async with connected(seeded.database.service_dsn) as connection:
        undo = connection.transaction()
        await undo.start()
        yield connection
        await undo.rollback()


async def set_tenant(connection: Connection, tenant: UUID) -> None:
    await connection.execute("select set_config('app.current_tenant', $1, true)", str(tenant))


async def ids_of(seeded: Seeded, table: str, tenant: UUID) -> set[UUID]:
    rows = await fetch(seeded.database.superuser_dsn, f"select id from {table} where tenant_id = $1", tenant)
    return {row["id"] for row in rows}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("value", [None, ""])
async def test_keyword_functions_raise_without_a_tenant(service: Connection, call: str, value: str | None) -> None:
    if value is not None:
        await service.execute("select set_config('app.current_tenant', $1, true)", value)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="no tenant is set"):
        await service.fetch(call)


@pytest.mark.parametrize("value", ["*", "null", "' or true --", "00000000-0000-0000-0000-00000000000g"])
async def test_keyword_functions_raise_for_a_malformed_tenant(service: Connection, value: str) -> None:
    await service.execute("select set_config('app.current_tenant', $1, true)", value)
    with pytest.raises(asyncpg.DataError):
        await service.fetch(CALLS[1])


async def test_keyword_search_finds_only_own_entries(seeded: Seeded, service: Connection) -> None:
    """Both tenants hold the same texts, so that every hit has a twin that could be returned by mistake."""
    for tenant in (seeded.first, seeded.second):
        await set_tenant(service, tenant)
        found = {row["entry_id"] for row in await service.fetch(SEARCH, ["harbour", "night", "ship"])}
        assert len(found) >= 3
        assert found <= await ids_of(seeded, "entries", tenant)


async def test_keyword_search_raises_for_another_tenant_than_the_one_that_is_set(
    seeded: Seeded, service: Connection
) -> None:
    await set_tenant(service, seeded.first)
    call = SEARCH.replace("current_tenant()", f"'{seeded.second}'")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="another tenant is set"):
        await service.fetch(call, ["harbour"])


async def test_matched_queries_finds_only_own_words(seeded: Seeded, service: Connection) -> None:
    call = "select keyword.matched_queries($1, null, array['harbour', 'harbours', 'harb:*'])"
    await set_tenant(service, seeded.first)
    assert sorted(await service.fetchval(call, seeded.first)) == [1, 3]
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="another tenant is set"):
        await service.fetchval(call, seeded.second)


async def test_matched_queries_finds_nothing_in_a_tenant_without_entries(service: Connection) -> None:
    empty = uuid4()
    await set_tenant(service, empty)
    call = "select keyword.matched_queries($1, null, array['harbour', 'harb:*', '!harbour'])"
    assert await service.fetchval(call, empty) == []


async def test_entries_with_parts_finds_only_own_entries(seeded: Seeded, service: Connection) -> None:
    call = "select keyword.entries_with_parts($1, 'arbour', 10)"
    await set_tenant(service, seeded.first)
    found = set(await service.fetchval(call, seeded.first))
    assert found
    assert found <= await ids_of(seeded, "entries", seeded.first)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="another tenant is set"):
        await service.fetchval(call, seeded.second)


@pytest.mark.parametrize("lexeme", HOSTILE)
async def test_longer_words_treats_hostile_words_as_words(seeded: Seeded, service: Connection, lexeme: str) -> None:
    await set_tenant(service, seeded.first)
    for is_unknown in (False, True):
        call = "select lexemes from longer_words($1, '{english,german}', $2, $3)"
        found = await service.fetch(call, seeded.first, [lexeme, "arbour"], is_unknown)
        assert [row["lexemes"] for row in found] == [["harbour"]] * is_unknown


@pytest.mark.parametrize("lexeme", HOSTILE)
async def test_keyword_search_treats_hostile_words_as_words(seeded: Seeded, service: Connection, lexeme: str) -> None:
    await set_tenant(service, seeded.first)
    assert await service.fetch(SEARCH, [lexeme]) == []
    with_real = {row["entry_id"] for row in await service.fetch(SEARCH, [lexeme, "harbour"])}
    assert with_real
    assert with_real <= await ids_of(seeded, "entries", seeded.first)


@pytest.mark.parametrize("text", HOSTILE)
async def test_filters_treat_hostile_text_as_text(seeded: Seeded, service: Connection, text: str) -> None:
    await set_tenant(service, seeded.first)
    for field in ("roles", "tags", "entry_types"):
        assert await service.fetchval(FILTERED.format("array[$2::text]"), field, text) == [], field
    assert await service.fetchval(FILTERED.format("$2::text"), "scope", text) == []
    condition = FILTERED.format("jsonb_build_object($2::text, $2::text)")
    assert await service.fetchval(condition, "metadata", text) == []
    overlaps = "select * from keyword.tag_overlaps(array[$1, $1]::text[], gen_random_uuid(), 10)"
    assert await service.fetch(overlaps, text) == []


async def test_filtered_ids_ignores_another_tenants_assets(seeded: Seeded, service: Connection) -> None:
    own, foreign = [await ids_of(seeded, "assets", t) for t in (seeded.first, seeded.second)]
    await set_tenant(service, seeded.first)
    call = FILTERED.format("$2::uuid[]")
    assert await service.fetchval(call, "asset_ids", list(foreign)) == []
    found = set(await service.fetchval(call, "asset_ids", list(own | foreign)))
    assert found
    assert found <= await ids_of(seeded, "entries", seeded.first)


async def test_filtered_ids_of_an_empty_filter_are_the_own_entries(seeded: Seeded, service: Connection) -> None:
    await set_tenant(service, seeded.first)
    found = await service.fetchval("select keyword.filtered_ids(null, 1000)")
    assert set(found) == await ids_of(seeded, "entries", seeded.first)


async def test_tag_overlaps_ignores_another_tenants_entries(seeded: Seeded, service: Connection) -> None:
    own, foreign = [await ids_of(seeded, "entries", t) for t in (seeded.first, seeded.second)]
    await set_tenant(service, seeded.first)
    for without in (next(iter(foreign)), next(iter(own))):
        rows = await service.fetch(
            "select entry_id, overlap_count from keyword.tag_overlaps('{sea,night,harbour}', $1, 100)", without
        )
        assert rows
        assert {row["entry_id"] for row in rows} <= own - {without}
        assert {row["overlap_count"] for row in rows} == {3}


async def test_matching_entries_ignores_another_tenants_entries(seeded: Seeded, service: Connection) -> None:
    await set_tenant(service, seeded.first)
    own, foreign = [await ids_of(seeded, "entries", t) for t in (seeded.first, seeded.second)]
    for words in ("'{harbour}', '{english}', null, null", "null, null, '{harbour:*}', '{null}'"):
        call = f"select entry_id from keyword.matching_entries({words}, null, $1::uuid[], 1000)"
        found = {row["entry_id"] for row in await service.fetch(call, None)}
        assert found
        assert found <= own
        assert await service.fetch(call, list(foreign)) == []


async def test_former_ids_ignores_another_tenants_versions(seeded: Seeded, service: Connection) -> None:
    await set_tenant(service, seeded.first)
    own, foreign = [await ids_of(seeded, "former_entries", t) for t in (seeded.first, seeded.second)]
    moments = """
        select keyword.former_ids(jsonb_populate_record(
          null::entry_filter, jsonb_build_object('as_of', v.valid_from, 'include_superseded', true)), 1000)
          from former_entries v where not absent"""
    found = {i for row in await service.fetch(moments) for i in row[0]}
    assert found
    assert found <= own
    assert not found & foreign


async def test_derived_entries_ignores_another_tenants_entries(seeded: Seeded, service: Connection) -> None:
    derivations = "select tenant_id, id, source_ids from entries where source_ids <> '{}'"
    rows = await fetch(seeded.database.superuser_dsn, derivations)
    sources = {row["tenant_id"]: (row["source_ids"][0], row["id"]) for row in rows}
    await set_tenant(service, seeded.first)
    call = "select entry_id from keyword.derived_entries($1, 10)"
    source, derived = sources[seeded.first]
    assert [row["entry_id"] for row in await service.fetch(call, source)] == [derived]
    assert await service.fetch(call, sources[seeded.second][0]) == []


async def test_keyword_functions_cannot_be_fooled_by_temporary_objects(seeded: Seeded, service: Connection) -> None:
    await set_tenant(service, seeded.first)
    own = await ids_of(seeded, "entries", seeded.first)
    await service.execute("""
        create temporary table entries as select gen_random_uuid() as id;
        create function pg_temp.current_tenant() returns uuid language sql as 'select gen_random_uuid()';
        create function pg_temp.entry_matches(public.entries, public.entry_filter) returns boolean
          language plpgsql as $$ begin raise exception 'fooled'; end $$;
        set local search_path = pg_temp, public""")
    assert set(await service.fetchval("select keyword.filtered_ids(null, 1000)")) == own
    assert {row["entry_id"] for row in await service.fetch(SEARCH, ["harbour"])} <= own
    assert await service.fetch("select * from keyword.tag_overlaps('{sea,night}', gen_random_uuid(), 10)")


async def test_claim_job_returns_numbers_and_no_content(seeded: Seeded, service: Connection) -> None:
    columns = await service.fetchval("select pg_get_function_result('queue.claim_job'::regproc)")
    assert (
        columns == "TABLE(tenant_id uuid, id uuid, kind text, subject text, attempts integer, fence bigint, "
        "lost integer, postponed integer)"
    )
    own, foreign = [await ids_of(seeded, "jobs", t) for t in (seeded.first, seeded.second)]
    await service.execute("select set_config('app.current_tenant', '', true)")
    await execute(seeded.database.superuser_dsn, "update jobs set run_at = clock_timestamp()")
    claimed = set()
    while row := await service.fetchrow(
        "select * from queue.claim_job(array['embed_entries'], $1)", timedelta(minutes=1)
    ):
        claimed.add(row["id"])
    assert claimed == own | foreign


async def test_next_due_returns_a_number(seeded: Seeded, service: Connection) -> None:
    assert await service.fetchval("select pg_get_function_result('queue.next_due'::regproc)") == "double precision"
    async with connected(seeded.database.superuser_dsn) as superuser:
        await superuser.execute("update jobs set run_at = clock_timestamp() + interval '1 hour'")
        await superuser.execute("""
            update jobs set run_at = clock_timestamp() + interval '1 minute', kind = 'erase' where id =
            (select id from jobs order by id limit 1)""")
    await service.execute("select set_config('app.current_tenant', '', true)")
    due = [await service.fetchval("select queue.next_due($1)", kinds) for kinds in (["erase"], ["embed_entries"], [])]
    assert 50 < due[0] <= 60
    assert 3500 < due[1] <= 3600
    assert due[2] is None


async def test_count_jobs_returns_counts_of_kinds_and_no_tenant(seeded: Seeded, service: Connection) -> None:
    columns = await service.fetchval("select pg_get_function_result('queue.count_jobs'::regproc)")
    assert (
        columns == "TABLE(kind text, waiting bigint, scheduled bigint, running bigint, oldest_seconds double precision)"
    )
    async with connected(seeded.database.superuser_dsn) as superuser:
        await superuser.execute("update jobs set run_at = clock_timestamp() - interval '1 hour'")
        stored = await superuser.fetchval("select count(*) from jobs")
    await service.execute("select set_config('app.current_tenant', '', true)")
    rows = await service.fetch("select * from queue.count_jobs(100)")
    assert sum(row["waiting"] for row in rows) == stored
    assert stored > 1
    assert all(3600 <= row["oldest_seconds"] < 3700 for row in rows)
    bounded = await service.fetch("select * from queue.count_jobs(1)")
    assert sum(row["waiting"] for row in bounded) == 1


@pytest.mark.parametrize("kind", HOSTILE)
async def test_claim_job_treats_hostile_kinds_as_text(service: Connection, kind: str) -> None:
    assert await service.fetch("select * from queue.claim_job(array[$1], interval '1 minute')", kind) == []


async def test_delete_tenant_leaves_no_tenant_set(seeded: Seeded, service: Connection) -> None:
    """Otherwise later statements in the transaction would act as the deleted tenant."""
    assert await service.fetchval("select tenancy.delete_tenant($1, 'test')", seeded.second) is True
    assert await service.fetchval("select current_tenant()") is None


@pytest.mark.parametrize(
    "sql",
    [
        "set role kb_keyword",
        "set role kb_queue",
        "set role kb_migrator",
        "set role postgres",
        "set session authorization kb_migrator",
        "grant kb_keyword to kb_service",
        "alter role kb_service bypassrls",
        "create function keyword.own() returns int language sql as 'select 1'",
        "create function queue.own() returns int language sql as 'select 1'",
        "create function tenancy.own() returns int language sql as 'select 1'",
        "create function public.own() returns int language sql as 'select 1'",
        "create table public.own (n int)",
        "create or replace function keyword.filtered_ids(p_filter entry_filter, p_limit integer) returns uuid[]"
        " language sql as 'select null::uuid[]'",
        "alter function keyword.filtered_ids(entry_filter, integer) reset search_path",
        "alter table entries disable row level security",
        "alter table entries no force row level security",
        "create policy all_rows on entries using (true)",
        "drop policy tenant_isolation on entries",
        "alter policy tenant_isolation on entries using (true)",
        "truncate entries",
        "create trigger own before insert on entries for each row execute function count_entries()",
        "create view public.own as select * from entries",
        "select count_entries()",
        "set session_replication_role = replica",
        "copy entries from '/dev/null'",
        "create temporary table spy (tenant_id uuid, id uuid, foreign key (tenant_id, id) references entries)",
    ],
)
async def test_the_service_role_cannot_widen_its_rights(service: Connection, sql: str) -> None:
    refusals = (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidTableDefinitionError)
    with pytest.raises(refusals):
        await service.execute(sql)


async def test_row_security_off_raises_an_error(seeded: Seeded, service: Connection) -> None:
    await set_tenant(service, seeded.first)
    await service.execute("set local row_security = off")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        await service.fetch("select * from entries")


PAGE = Path(__file__).parents[3] / "docs" / "operations" / "sizing.md"
AGES = {"young": 399, "old": 401}
COUNT = "select actor || ' ' || count(*) from {} where actor = any ($1) group by actor order by 1"


def read_statement() -> str:
    (statement,) = (s for s in re.findall(r"<<'SQL'\n(.*?)^SQL$", PAGE.read_text("utf-8"), re.M | re.S) if "audit" in s)
    return str(statement)


async def test_only_the_owner_prunes_old_rows(
    services: Services, tenant: Tenant, other_tenant: Tenant, superuser_dsn: str, admin_dsn: str, service_dsn: str
) -> None:
    async with connected(superuser_dsn) as superuser, connected(service_dsn) as service:
        for actor, days in AGES.items():
            await superuser.execute(
                "insert into audit (tenant_id, id, at, actor, action)"
                " select id, gen_random_uuid(), now() - make_interval(days => $2), $1, 'stats.read' from tenants",
                actor,
                days,
            )
            await superuser.execute(
                "insert into platform_audit (at, actor, action)"
                " values (now() - make_interval(days => $2), $1, 'tenant.list')",
                actor,
                days,
            )

        async def count(table: str) -> list[str]:
            return [row[0] for row in await superuser.fetch(COUNT.format(table), [*AGES])]

        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.execute(read_statement())
        assert (await count("audit"), await count("platform_audit")) == (["old 2", "young 2"], ["old 1", "young 1"])
        async with connected(admin_dsn) as owner:
            assert not await owner.fetchval("select rolsuper or rolbypassrls from pg_roles where rolname = user")
            await owner.execute(read_statement())
        assert (await count("audit"), await count("platform_audit")) == (["young 2"], ["young 1"])
        assert (
            await superuser.fetchval("select actor from platform_audit where action = 'audit.prune'") == "kb_migrator"
        )
