"""Statements with the names of shards, on plain tables that have such names and no others."""

import re
from collections.abc import AsyncIterator

import pytest

from app.db.cluster.sessions import SHARD_FUNCTIONS, fill, mark
from app.db.connections import NO_TENANT
from app.db.statements import Order, load_statements
from tests.fixtures.database.cluster import Connection, TestDatabase, connected
from tests.fixtures.database.statements import query_modules

GROUP = 7

TABLES = """
    select c.relname as name from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
       and (c.relname in ('tenants', 'embedding_models')
            or exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id'))"""

# The names that a group has. The others are types of rows: a statement that reads one as a table fails.
RENAME = """
    do $$
    declare place record;
    begin
      for place in TABLES loop
        execute format('alter table %I rename to %I', place.name, place.name || '_7');
        execute (
          select format('create type %I as (%s)', place.name, string_agg(
                   format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum))
            from pg_attribute a
           where a.attrelid = (place.name || '_7')::regclass and a.attnum > 0 and not a.attisdropped);
      end loop;
      for place in
        select p.oid::regprocedure as call, p.proname
          from pg_proc p join pg_namespace n on n.oid = p.pronamespace
         where case n.nspname when 'public' then '' else n.nspname || '.' end || p.proname = any (FUNCTIONS)
      loop
        execute format('alter function %s rename to %I', place.call, place.proname || '_7');
      end loop;
    end $$;
    create function entry_matches_7(e entries, f entry_filter) returns boolean language sql return true;
    create function entry_passes(e entries, f entry_filter) returns boolean language sql return true;
    create function former_entry(v former_entries) returns entries language sql return null::entries;
    create function entry_fulfils(e entries, f entry_filter) returns boolean language sql return true;
"""


@pytest.fixture
async def renamed(own_database: TestDatabase) -> AsyncIterator[Connection]:
    functions = ", ".join(f"'{name}'" for name in SHARD_FUNCTIONS)
    async with connected(own_database.superuser_dsn) as superuser:
        await superuser.execute(RENAME.replace("TABLES", TABLES).replace("FUNCTIONS", f"array[{functions}]"))
        yield superuser


async def test_every_statement_finds_the_tables_of_its_group(renamed: Connection) -> None:
    tables = [
        row["name"].removesuffix("_7")
        for row in await renamed.fetch(
            TABLES.replace("('tenants', 'embedding_models')", "('tenants_7', 'embedding_models_7')")
        )
    ]
    assert {"entries", "tenants", "jobs", "embedding_models"} < set(tables)
    names = {name: f"{name}_{GROUP}" for name in (*tables, *SHARD_FUNCTIONS)}
    prepared = 0
    for module in query_modules():
        for statement in load_statements(module).values():
            holes = set(re.findall(r"\{([a-z_]+)\}", statement.sql))
            literals = {hole: NO_TENANT if hole.startswith("tenant") else 16 for hole in holes}
            if "direction" in holes:
                text = statement.ordered(
                    Order("tag" if statement.name.endswith("list_tags") else "created_at", True)
                ).sql
            else:
                text = statement.literal(**literals).sql if holes else statement.sql
            written = fill(mark(text, tables), names)
            await renamed.prepare(written)
            prepared += 1
    assert prepared > 100


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("select 1 from entries e", "select 1 from public.entries_7 e"),
        ("select 1 from public.entries where x", "select 1 from public.entries_7 as entries where x"),
        ("select 1 from entries as e", "select 1 from public.entries_7 as e"),
        ("select 1 from entries", "select 1 from public.entries_7 as entries"),
        ("update entries set entries = 1", "update public.entries_7 as entries set entries = 1"),
        ("insert into entries (id) select 1", "insert into public.entries_7 as entries (id) select 1"),
        ("for update of entries skip locked", "for update of entries skip locked"),
        ("select entries, sum(entries) from jobs j order by entries desc",
         "select entries, sum(entries) from public.jobs_9 j order by entries desc"),
        ("join entries_old e on true", "join entries_old e on true"),
        ("where entry_matches(e, $1)", "where public.entry_matches_7(row(e.*)::public.entries, $1)"),
        ("select former_entry(v), 1", "select former_entry(row(v.*)::public.former_entries), 1"),
        ("from keyword.search($1)", "from keyword.search_7($1)"),
        ("select 'public.entries'::regclass", "select 'public.entries_7'::regclass"),
    ],
)  # fmt: skip
def test_names_of_shards_replace_tables_and_nothing_else(text: str, written: str) -> None:
    names = {"entries": "entries_7", "jobs": "jobs_9", "entry_matches": "entry_matches_7"}
    assert fill(mark(text, ["entries", "jobs"]), {**names, "keyword.search": "keyword.search_7"}) == written


async def test_functions_that_read_tables_with_the_rights_of_a_caller_are_listed(own_database: TestDatabase) -> None:
    """Without the name of a shard, Citus connects to other nodes with the caller's role, which may not log in."""
    async with connected(own_database.superuser_dsn) as superuser:
        tables = [row["name"] for row in await superuser.fetch(TABLES)]
        functions = await superuser.fetch(
            "select case n.nspname when 'public' then '' else n.nspname || '.' end || p.proname as name,"
            "       p.prosrc as text"
            "  from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
            " where n.nspname in ('public', 'keyword', 'queue', 'tenancy') and not p.prosecdef"
            "   and p.prorettype <> 'trigger'::regtype"
            "   and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')"
        )
    reading = {each["name"] for each in functions if mark(each["text"], tables, casts=False) != each["text"]}
    # Policies pass the tenant of a row to these, so that Citus reads one shard, of the same node.
    of_policies = {"may_read", "may_change"}
    # A cluster sweeps all tenants, and does not ask which of them are active.
    of_one_server = {"tenancy.active_tenants"}
    assert of_policies | of_one_server < reading
    assert reading - of_policies - of_one_server <= set(SHARD_FUNCTIONS)


def test_each_function_of_the_list_is_marked() -> None:
    marked = mark("select " + ", ".join(f"{name}(1)" for name in SHARD_FUNCTIONS), ["entries"])
    assert re.findall(r"@\{([\w.]+)\}", marked) == list(SHARD_FUNCTIONS)
