"""Each table × verb × principal, and each protection removed in turn."""

import re
from pathlib import Path

import asyncpg
import pytest

from app.db.schema.isolation import find_faults
from tests.fixtures.database.cluster import Connection
from tests.fixtures.database.seeded import Seeded
from tests.isolation.readers.holdings import CLOSED_ROWS, HIDDEN, OF_THE_SERVICE, OPEN, Held, as_service_role
from tests.isolation.readers.probing import probe_functions, probe_tables, probe_writers

CHANGES = {"insert": ("with check",), "update": ("using", "with check"), "delete": ("using",)}
HELD_TWICE = {("embeddings", "insert"), ("entries", "delete")}
"""Changes that another protection refuses, too: a trigger's lock of the entry, and the policy on former versions."""
CONDITION = re.compile(r"(\w+\.)?audience\(\w\.readers\) && (principals|\$\d)")


async def test_every_principal_reaches_exactly_what_it_may_read(breaking: tuple[Connection, Held]) -> None:
    assert await probe_tables(*breaking) == []


async def test_every_principal_changes_exactly_what_it_may(breaking: tuple[Connection, Held]) -> None:
    assert await probe_writers(*breaking) == []


async def test_functions_tell_no_more_than_if_hidden_rows_did_not_exist(breaking: tuple[Connection, Held]) -> None:
    assert await probe_functions(*breaking) == []


@pytest.mark.one_server
async def test_the_gate_knows_every_policy(breaking: tuple[Connection, Held]) -> None:
    superuser, _ = breaking
    for tables, name in ((HIDDEN, "readers"), *((CLOSED_ROWS, f"writers_{verb}") for verb in CHANGES)):
        found = await superuser.fetch("select polrelid::regclass::text from pg_policy where polname = $1", name)
        assert {row[0] for row in found} == set(tables)


def test_every_table_of_a_tenant_is_hidden_or_open_and_on_the_page(seeded: Seeded) -> None:
    assert HIDDEN.keys() | OPEN == set(seeded.tables)
    page = (Path(__file__).parents[3] / "docs" / "permissions.md").read_text("utf-8")
    places = re.findall(r"^\| (`.*`) \|", page.partition("| table | who sees a row |")[2], re.MULTILINE)
    assert {name for place in places for name in re.findall(r"`(\w+)`", place)} >= set(seeded.tables)


@pytest.mark.one_server
@pytest.mark.parametrize("table", sorted(HIDDEN))
@pytest.mark.parametrize(
    "sql",
    [
        "drop policy readers on {}",
        "alter policy readers on {} to kb_keyword",
        "alter policy readers on {} using (true)",
        "alter policy readers on {} with check (true)",
    ],
)
async def test_a_policy_that_shows_more_is_noticed(breaking: tuple[Connection, Held], table: str, sql: str) -> None:
    superuser, held = breaking
    if table == "audit" and "check" in sql:
        return  # its policy is for reading alone
    await superuser.execute(sql.format(table))
    async with as_service_role(superuser, held.tenant_id, ()):
        faults = [fault.text for fault in await find_faults(superuser)]
    assert [f for f in faults if f"policy readers on {table} " in f], faults
    if "check" not in sql:
        assert [f for f in await probe_tables(superuser, held, [table], ["select"]) if "reached" in f]


@pytest.mark.one_server
@pytest.mark.sampled(3)
@pytest.mark.parametrize("table", sorted(CLOSED_ROWS))
@pytest.mark.parametrize("verb", ["insert", "update", "delete"])
@pytest.mark.parametrize("sql", ["drop policy {} on {}", "alter policy {} on {} to kb_keyword"])
async def test_a_policy_that_lets_more_change_is_noticed(
    breaking: tuple[Connection, Held], table: str, verb: str, sql: str
) -> None:
    superuser, held = breaking
    await superuser.execute(sql.format(f"writers_{verb}", table))
    async with as_service_role(superuser, held.tenant_id, ()):
        faults = [fault.text for fault in await find_faults(superuser)]
    assert [f for f in faults if f"policy writers_{verb} on {table} " in f], faults
    reached = await probe_writers(superuser, held, [table], [verb] * (verb != "insert"))
    assert bool(reached) is ((table, verb) not in HELD_TWICE), reached


@pytest.mark.one_server
@pytest.mark.parametrize("table", sorted(CLOSED_ROWS))
async def test_an_open_condition_of_writers_is_noticed(breaking: tuple[Connection, Held], table: str) -> None:
    superuser, held = breaking
    for verb, clauses in CHANGES.items():
        for clause in clauses:
            undo = superuser.transaction()
            await undo.start()
            await superuser.execute(f"alter policy writers_{verb} on {table} {clause} (true)")
            async with as_service_role(superuser, held.tenant_id, ()):
                faults = [fault.text for fault in await find_faults(superuser)]
            await undo.rollback()
            assert [f for f in faults if f"policy writers_{verb} on {table} " in f], (clause, faults)


async def test_rows_cannot_be_given_readers_that_the_writer_is_not(breaking: tuple[Connection, Held]) -> None:
    superuser, held = breaking
    for table, own in (("entries", "asset_id is null"), ("assets", "true")):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            async with as_service_role(superuser, held.tenant_id, ("everyone", "user:cleo")):
                await superuser.execute(
                    f"update {table} set readers = '{{group:board}}' where readers is null"
                    f" and id = (select id from {table} where readers is null and writers is null and {own} limit 1)"
                )


def list_conditions() -> list[tuple[str, int]]:
    """Each condition on readers in `alembic/sql`, by function and place."""
    from app.db.schema.scripts import function_files, function_script

    found = []
    for name, file in function_files().items():
        body = function_script(file, name)
        found += [(name, place) for place, _ in enumerate(CONDITION.finditer(body))]
    return found


@pytest.mark.one_server
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("function", "place"), list_conditions(), ids=str)
async def test_a_function_without_a_condition_is_noticed(
    breaking: tuple[Connection, Held], function: str, place: int
) -> None:
    superuser, held = breaking
    source = await superuser.fetchval("select pg_get_functiondef($1::regproc)", function)
    matches = list(CONDITION.finditer(source))
    start, end = matches[place].span()
    parameter = matches[place][2]
    kept = f"{parameter} is not null" if parameter.startswith("$") else "true"
    await superuser.execute(source[:start] + kept + source[end:])
    async with as_service_role(superuser, held.tenant_id, ()):
        faults = [fault.text for fault in await find_faults(superuser)]
    assert [f for f in faults if function in f], faults
    assert await probe_functions(superuser, held) != []


@pytest.mark.parametrize("table", sorted(set(HIDDEN) - OF_THE_SERVICE))
async def test_a_reader_in_doubt_sees_nothing(breaking: tuple[Connection, Held], table: str) -> None:
    """An empty list of principals opens nothing."""
    superuser, held = breaking
    async with as_service_role(superuser, held.tenant_id, ()):
        await superuser.execute("set local app.current_principals = '{}'")
        where = f"where {HIDDEN[table]}"
        assert await superuser.fetchval(f"select count(*) from {table} {where}") == 0
