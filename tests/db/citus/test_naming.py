"""Statements with the names of shards, on plain tables that have such names and no others."""

import re
from collections.abc import AsyncIterator, Iterable, Sequence

import pytest

from app.db.cluster.distribution import find_copied
from app.db.cluster.sessions import TAKES_ROW, fill, mark
from app.db.connections import NO_TENANT
from app.db.schema.scripts import function_files, function_script
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
    async with connected(own_database.superuser_dsn) as superuser:
        copied = copied_functions(await list_tables(superuser))
        functions = ", ".join(f"'{name}'" for name in copied)
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
    copied = copied_functions(tables)
    names = {name: f"{name}_{GROUP}" for name in (*tables, *copied)}
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
            written = fill(mark(text, tables, copied), names)
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
    functions = ["entry_matches", "keyword.search"]
    assert fill(mark(text, ["entries", "jobs"], functions), {**names, "keyword.search": "keyword.search_7"}) == written


async def list_tables(connection: Connection) -> list[str]:
    return [row["name"] for row in await connection.fetch(TABLES)]


def read_scripts() -> dict[str, str]:
    return {
        name: function_script(file, name, distributed=True) for name, file in function_files(distributed=True).items()
    }


def copied_functions(tables: Iterable[str]) -> Sequence[str]:
    return find_copied(read_scripts(), tables)


async def test_no_table_or_function_of_a_group_keeps_its_name(own_database: TestDatabase) -> None:
    """In functions that groups have copies of and in statements, also in forms that none uses yet."""
    async with connected(own_database.superuser_dsn) as superuser:
        tables = await list_tables(superuser)
    copied = copied_functions(tables)
    scripts = read_scripts()
    assert {"stored_entries", "may_read", "count_entries", "keyword.search"} < set(copied)
    texts = {name: scripts[name] for name in copied}
    texts |= {each.name: each.sql for module in query_modules() for each in load_statements(module).values()}
    # `entries` and `assets` are columns too, in lists.
    listed = rf",\s*(?:public\.)?(?:{'|'.join({*tables} - {'entries', 'assets'})})\s+(?!\.)[a-z]"
    verbs = "from|join|only|into|update|using|table|lock"
    named = rf"\b(?:{verbs})\s+(?:only\s+)?(?:public\.)?(?:{'|'.join(tables)})\b(?![.(])"
    called = rf"(?<![\w.@{{])(?:public\.)?(?:{'|'.join(map(re.escape, copied))})\("
    for name, text in texts.items():
        marked = re.sub(r"--.*", "", mark(text, tables, copied))
        for pattern in (listed, named, called):
            found = re.search(pattern, marked, re.IGNORECASE)
            assert found is None, (name, found)


async def test_functions_that_take_a_row_of_a_table_are_listed(own_database: TestDatabase) -> None:
    async with connected(own_database.superuser_dsn) as superuser:
        rows = await superuser.fetch(
            "select p.proname as name, c.relname as place from pg_proc p"
            "  join pg_type t on t.oid = any (p.proargtypes) join pg_class c on c.oid = t.typrelid"
            " where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace"
        )
    assert {row["name"]: row["place"] for row in rows} == TAKES_ROW
