"""Statements, rows and types, and the columns of the contract's shapes in all of them."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from uuid import UUID

import asyncpg
import pytest

from app.db import rows
from app.db.database import Database
from app.db.engine import DESCRIBE_TYPES
from app.db.queries.entries import fetch_entries
from app.db.rows import new_id
from app.db.statements import COLUMNS, HEADING, expand_columns, load_statements, parse_statement
from tests.fixtures.database.cluster import connected, fetchrow
from tests.fixtures.database.seeded import Seeded
from tests.fixtures.database.statements import query_modules, sql_modules


def test_parameters_are_numbered_in_order_and_repeats_share_a_number() -> None:
    statement = parse_statement("s", "select :b, :a, :b where x = :a;")
    assert statement.sql == "select $1, $2, $1 where x = $2"
    assert statement.parameters == ("b", "a")


@pytest.mark.parametrize(
    ("text", "sql", "parameters"),
    [
        ("select x::text", "select x::text", ()),
        ("select :x::text[]", "select $1::text[]", ("x",)),
        ("select (:x)::uuid, y::int", "select ($1)::uuid, y::int", ("x",)),
        ("select a[1:2]", "select a[1:2]", ()),
        ("select '12:30'::time", "select '12:30'::time", ()),
        ("values(:x,:y_2)", "values($1,$2)", ("x", "y_2")),
        ("select $$:$$", "select $$:$$", ()),
    ],
)
def test_only_a_colon_before_a_name_is_a_parameter(text: str, sql: str, parameters: tuple[str, ...]) -> None:
    statement = parse_statement("s", text)
    assert (statement.sql, statement.parameters) == (sql, parameters)


def test_only_integers_and_uuids_are_literals() -> None:
    statement = parse_statement("s", "select {model_id} + :x")
    assert statement.literal(model_id=7).sql == "select 7 + $1"
    assert statement.literal(model_id=7).parameters == ("x",)
    for value in ("7; drop table entries", "x", None, [7]):
        with pytest.raises((TypeError, ValueError)):
            statement.literal(model_id=value)  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        statement.literal(other=7)
    tenant = UUID("018f0000-0000-7000-8000-000000000001")
    written = "select '018f0000-0000-7000-8000-000000000001'::uuid + $1"
    assert statement.literal(model_id=tenant).sql == written

    class Forged(UUID):
        def __str__(self) -> str:
            return "'; drop table entries; --"

    assert statement.literal(model_id=Forged(int=tenant.int)).sql == written


def test_every_file_loads_and_its_statement_names_are_unique() -> None:
    modules = sql_modules()
    assert len(modules) >= 8
    for module in modules:
        package, _, file = module.rpartition(".")
        text = (files(package) / f"{file}.sql").read_text(encoding="utf-8")
        statements = load_statements(module)
        names = HEADING.findall(text)
        assert len(names) == len(set(names)), f"{module} names a statement twice"
        assert {name for name in statements if name not in names} <= {f"{name}_then" for name in names}
        for statement in statements.values():
            assert statement.sql, statement.name
            code = [line for line in statement.sql.splitlines() if not line.startswith("--")]
            assert ";" not in "".join(code), f"{statement.name} holds more than one statement"


def test_every_statement_on_tenant_tables_names_the_tenant() -> None:
    """The policy is the last line of defence: the planner needs the condition to choose partition and index."""
    exempt = {
        "search.filtered_ids",
        "vectors.former_ids",
        "search.rehearse_keyword_leg",
        "jobs.announce",
        "jobs.next_due",
        "jobs.claim",
        "jobs.figures",
        "tenants.find_tenant",
        "tenants.list_tenants",
        "tenants.page_of_tenants",
        "tenants.count_tenants",
        "tenants.tenants_from",
        "tenants.models",
        "tenants.models_of_tenants",
        "tenants.active_tenants",
    }
    exempt |= {f"tenants.{name}" for name in ("create_tenant", "delete_tenant", "change_limits", "note_action")}
    exempt |= {f"tenants.{name}_revocation{plural}" for name, plural in (("list_platform", "s"), ("put_platform", ""))}
    exempt |= {"tenants.platform_revocation_ids"}
    exempt |= {
        f"diagnosis.{name}" for name in ("server", "extension", "broken_indexes", "word_index", "vector_indexes")
    }
    # Definer functions for the current tenant, a lock, and names in the catalog.
    exempt |= {"deliveries.take_turns", "statistics.prune_audit", "erasures.pseudonymise_actor"}
    # Tables of all tenants.
    exempt |= {"statistics.outdated", "statistics.analyze"}
    # A model is shared by all tenants.
    exempt |= {"jobs.pause"}
    exempt |= {f"embeddings.{name}" for name in ("create", "drop", "take_turn", "owners", "deleted")}
    # Settings of the planner, for one statement.
    exempt |= {"entries.plan_each_time", "entries.plan_as_usual"}
    # The tenant is a literal, for the planner.
    exempt |= {"vectors.indexed"}
    for module in query_modules():
        for statement in load_statements(module).values():
            if statement.name not in exempt:
                assert "tenant_id" in statement.parameters, statement.name


def test_unknown_statement_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        load_statements("app.db.queries.entries")["nothing"]


PAIR = parse_statement("pair", "select 1 as first, 'one' as second")
SWAPPED = parse_statement("swapped", "select 'one' as second, 1 as first")
NONE = parse_statement("none", "select 1 as first, 'one' as second where false")


@dataclass(frozen=True, slots=True)
class Pair:
    """The columns of the statements above."""

    first: int
    second: str


async def test_rows_are_read_as_a_dataclass_whose_fields_are_the_columns(seeded: Seeded) -> None:
    database = Database(seeded.database.service_dsn, pool_size=1)
    try:
        async with database.tenant_session(seeded.first) as session:
            assert await session.fetch_as(Pair, PAIR) == [Pair(1, "one")]
            assert await session.fetch_one_as(Pair, PAIR) == Pair(1, "one")
            assert await session.fetch_one_as(Pair, NONE) is None
            with pytest.raises(TypeError, match="second, first are not the fields of Pair"):
                await session.fetch_as(Pair, SWAPPED)
    finally:
        await database.close()


@pytest.mark.parametrize(
    "name",
    ["entry_filter", "halfvec[]", "entries", "jsonb[]", "information_schema.yes_or_no", "int4range",
     "int4multirange[]", "entry_filter[]", "text"],
)  # fmt: skip
async def test_a_type_is_described_as_the_driver_would(service_dsn: str, name: str) -> None:
    async with connected(service_dsn) as connection:
        oid = await connection.fetchval(f"select '{name}'::regtype::oid")
        query: str = connection._intro_query  # type: ignore[attr-defined]
        expected = await connection.fetch(query, [oid])
        found = await connection.fetch(DESCRIBE_TYPES, [oid])

    def essence(rows: list[asyncpg.Record]) -> dict[int, dict[str, object]]:
        return {row["oid"]: {key: value for key, value in row.items() if key != "depth"} for row in rows}

    assert essence(found) == essence(expected)
    places = {row["oid"]: place for place, row in enumerate(found)}
    for row in found:
        for part in (row["elemtype"], row["basetype"], row["range_subtype"], *(row["attrtypoids"] or ())):
            assert not part or part == row["oid"] or places[part] < places[row["oid"]]


async def test_unscoped_query_is_an_error(seeded: Seeded, single: Database) -> None:
    async with single.tenant_session(seeded.first) as session:
        assert await fetch_entries(session, [seeded.first]) == {}
    async with single.platform_session() as platform:
        with pytest.raises(KeyError, match="tenant_id"):
            # `make check` refuses an unused `ignore`, so that this is an error of types, too.
            await fetch_entries(platform, [seeded.first])  # type: ignore[arg-type]
        assert not platform.has_written


def test_an_id_is_a_version_7_uuid_of_the_current_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_last", 0)
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_999_999)
    made = new_id()
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert made.int >> 80 == 1_700_000_000_123


def test_ids_of_one_moment_are_in_order_of_creation() -> None:
    made = [new_id() for _ in range(20_000)]
    assert made == sorted(set(made))


def test_ids_stay_in_order_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((2_000_000_000_000_000_000, 1_900_000_000_000_000_000, 2_000_000_000_000_000_000))
    monkeypatch.setattr(rows, "_last", 0)
    monkeypatch.setattr(time, "time_ns", lambda: next(times))
    made = [new_id() for _ in range(3)]
    assert made == sorted(set(made))


def test_threads_never_create_the_same_id(monkeypatch: pytest.MonkeyPatch) -> None:
    def let_others_run(*numbers: int) -> int:
        time.sleep(0)
        return max(numbers)

    monkeypatch.setattr(rows, "max", let_others_run, raising=False)
    monkeypatch.setattr(time, "time_ns", lambda: 2_000_000_000_000_000_000)
    monkeypatch.setattr(rows, "_last", 0)
    with ThreadPoolExecutor(8) as threads:
        made = [i for some in threads.map(lambda _: [new_id() for _ in range(100)], range(8)) for i in some]
    assert len({i.int >> 64 for i in made}) == len(made) == 800


COMPUTED = {
    "entries": {"tenant_id", "content_hash", "text_hash", "lexemes", "pattern", "text_length", "word_weights"},
    "assets": {"tenant_id", "original"},
}
"""Columns that an export lacks: an import computes them, or has them on lines of their own."""

NAMED = [("former_entry", "v"), ("entries_at", "v"), ("keep_version", "old"), ("keep_version", "new")]
"""Functions that list the columns of an entry, with the name of the row in them."""
UNCHANGED = {"former_entry": set[str](), "entries_at": set[str](), "keep_version": {"id", "readers", "writers"}}
"""Columns that they need not have: a former version has the readers of today, and its writers write nothing."""

FUNCTION = "select prosrc, pg_get_function_sqlbody(oid) as body from pg_proc where proname = $1"


def test_a_list_names_assigns_and_omits_columns() -> None:
    names = COLUMNS["core"]
    assert expand_columns("select {core}") == f"select {', '.join(names)}"
    assert expand_columns("{e.core}").split(", ") == [f"e.{name}" for name in names]
    assert expand_columns("{core = g.core except id, title}").split(", ") == [
        f"{name} = g.{name}" for name in names if name not in ("id", "title")
    ]
    assert expand_columns("{model_id} {entries}") == "{model_id} {entries}"


@pytest.mark.parametrize("text", ["{core except name}", "{written = r.core}"])
def test_a_list_of_unknown_columns_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no columns of the shape"):
        expand_columns(text)


async def test_every_column_of_a_table_is_exported(superuser_dsn: str) -> None:
    """A column that is in no shape would be lost with an export."""
    exported = {"entries": {*COLUMNS["stored"], "repeats"}}
    exported["assets"] = {*COLUMNS["stored_asset"], "sha256", "extracted_text", "given_title", "outline"}
    async with connected(superuser_dsn) as superuser:
        for table, computed in COMPUTED.items():
            rows = await superuser.fetch(
                "select attname from pg_attribute where attrelid = $1::text::regclass and attnum > 0"
                " and not attisdropped",
                table,
            )
            assert {row["attname"] for row in rows} - computed == exported[table]
    text = (files("app.db.queries") / "transfer.sql").read_text(encoding="utf-8")
    for line in ("{stored}, repeats", "{stored_asset}, sha256, extracted_text, given_title, outline"):
        assert f"select {line} from" in text


@pytest.mark.parametrize(("function", "row"), NAMED)
async def test_stored_functions_list_the_columns_of_an_entry(superuser_dsn: str, function: str, row: str) -> None:
    found = await fetchrow(superuser_dsn, FUNCTION, function)
    assert found is not None
    names = set(re.findall(rf"\b{row}\)?\.(\w+)", found["body"] or found["prosrc"]))
    assert {*COLUMNS["stored"]} - UNCHANGED[function] <= names
