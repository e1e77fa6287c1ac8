"""The columns of the contract's shapes, in tables, statements and stored functions."""

import re
from importlib.resources import files

import pytest

from app.db.statements import COLUMNS, expand_columns
from tests.fixtures.database.cluster import connected

COMPUTED = {
    "entries": {"tenant_id", "content_hash", "text_hash", "lexemes", "text_length", "word_weights"},
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
    async with connected(superuser_dsn) as superuser:
        found = await superuser.fetchrow(FUNCTION, function)
    assert found is not None
    names = set(re.findall(rf"\b{row}\)?\.(\w+)", found["body"] or found["prosrc"]))
    assert {*COLUMNS["stored"]} - UNCHANGED[function] <= names
