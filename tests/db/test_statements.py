"""The loader of .sql files."""

from __future__ import annotations

from importlib.resources import files
from uuid import UUID

import pytest

from app.db.statements import HEADING, load_statements, parse_statement
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
        "vectors.widen_search",
        "search.rehearse_keyword_leg",
        "jobs.claim",
        "jobs.figures",
        "tenants.find_tenant",
        "tenants.list_tenants",
        "tenants.page_of_tenants",
        "tenants.count_tenants",
        "tenants.tenants_from",
        "tenants.models",
        "tenants.models_of_tenants",
    }
    exempt |= {f"tenants.{name}" for name in ("create_tenant", "delete_tenant", "change_limits", "note_action")}
    exempt |= {f"tenants.{name}_revocation{plural}" for name, plural in (("list_platform", "s"), ("put_platform", ""))}
    exempt |= {"tenants.platform_revocation_ids"}
    exempt |= {
        f"diagnosis.{name}" for name in ("server", "extension", "broken_indexes", "word_index", "vector_indexes")
    }
    # Definer functions for the current tenant, a lock, and names in the catalog.
    exempt |= {"deliveries.take_turns", "statistics.prune_audit", "erasures.pseudonymise_actor"}
    # A model is shared by all tenants.
    exempt |= {"jobs.pause"}
    exempt |= {f"embeddings.{name}" for name in ("create", "drop", "take_turn", "owners", "deleted")}
    # The tenant is a literal, for the planner.
    exempt |= {"vectors.indexed"}
    for module in query_modules():
        for statement in load_statements(module).values():
            if statement.name not in exempt:
                assert "tenant_id" in statement.parameters, statement.name


def test_unknown_statement_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        load_statements("app.db.queries.entries")["nothing"]
