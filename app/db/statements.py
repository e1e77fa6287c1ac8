"""Load SQL statements from the `.sql` file next to the module that runs them.

Files are read once, and named parameters are converted to asyncpg's numbered ones.

A file holds statements headed `-- name: fetch_entry`; comments that follow describe them. `:name` is a bound
parameter. `{model_id}` is a literal, needed where the planner must see the value to pick a partial index;
`Statement.literal` accepts integers and UUIDs only. `{column}`, `{beyond}` and `{direction}` order a list:
`Statement.ordered` replaces them.

`{core}` is a list of columns: the fields of a shape of `COLUMNS`, which the contract declares. `{e.core}` has them with
an alias, `{core = g.core}` assigns them, and `{core except id, title}` omits some.

`{text of fetch}` is the text of an earlier statement of the file.

A statement with `{entries}`, `{embeddings}` or `{matches}` reads entries by their ids, now or as they were at a time:
`load_statements` makes two of it. The name of the second ends with `_then`, and it has the parameter `as_of` too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple
from uuid import UUID

from app.contract.assets import Asset
from app.contract.entries import Entry, EntryCore, FormerVersion, WrittenEntry
from app.contract.results import FoundEntry

PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")
HEADING = re.compile(r"^-- name: ([a-z_]+)$", re.MULTILINE)
COMMENT = re.compile(r"--.*")
WRITING = re.compile(r"\b(?:insert|update|delete|merge)\b|\b(?:tenancy|queue)\.", re.IGNORECASE)
"""Matches only statements that may write: the functions of these schemas write for a role that may not."""


NOW = {"{entries}": "entries", "{embeddings}": "embeddings", "{matches}": "entry_matches"}
THEN = {
    "{entries}": "entries_at(array[wanted.id], :as_of::timestamptz)",
    "{embeddings}": "embeddings_at(array[wanted.id], :as_of::timestamptz, {model_id})",
    "{matches}": "entry_passes",
}
"""What statements read entries from; what entries_at() returns is known to be valid at the time."""

COLUMN = re.compile(r"[a-z_]+")


def _names(shape: type[Any], *computed: str) -> tuple[str, ...]:
    """The fields of a shape, without those that its statement computes."""
    return tuple(field.name for field in fields(shape) if field.name not in computed)


COLUMNS: Mapping[str, tuple[str, ...]] = {
    "core": _names(EntryCore),
    "written": _names(WrittenEntry),
    "stored": _names(Entry, "asset_name", "embedding_status"),
    "found": _names(FoundEntry),
    "former": _names(FormerVersion),
    "asset": _names(Asset),
    "stored_asset": _names(Asset, "chunks", "quarantined_chunks", "duplicate_of"),
}
"""The columns of each shape; `stored` and `stored_asset` are those of the tables that callers see."""

LIST = re.compile(
    r"\{(?:(?P<target>\w+) = )?(?:(?P<alias>\w+)\.)?"
    rf"(?P<shape>{'|'.join(COLUMNS)})(?: except (?P<omitted>[\w, ]+))?\}}"
)
INCLUDED = re.compile(r"\{text of ([a-z_]+)\}")


class Order(NamedTuple):
    """The order of a list: by one column of its statement, then by id in the same direction."""

    column: str
    descending: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement: `sql` with $1, $2, … and the names of its `parameters` in that order.

    `writes`: it may write; it is then treated as if it had. Without it, the statement only reads.
    """

    name: str
    sql: str
    parameters: tuple[str, ...]
    writes: bool

    def literal(self, **values: int | UUID) -> Statement:
        """The statement with its `{name}` placeholders replaced by integers and UUIDs."""
        return _with_literals(self, tuple(sorted(values.items())))

    def ordered(self, order: Order) -> Statement:
        """The statement with the placeholders of an order replaced."""
        return _in_order(self, order)


@lru_cache(maxsize=1024)
def _with_literals(statement: Statement, values: tuple[tuple[str, int | UUID], ...]) -> Statement:
    texts = {name: _write_literal(value) for name, value in values}
    return Statement(statement.name, statement.sql.format(**texts), statement.parameters, statement.writes)


@lru_cache(maxsize=64)
def _in_order(statement: Statement, order: Order) -> Statement:
    if not COLUMN.fullmatch(order.column):
        raise ValueError(f"{order.column!r} is not the name of a column")
    beyond, direction = ("<", "desc") if order.descending else (">", "asc")
    sql = statement.sql.format(column=order.column, beyond=beyond, direction=direction)
    return Statement(statement.name, sql, statement.parameters, statement.writes)


def _write_literal(value: int | UUID) -> str:
    # Only the text of an integer or a UUID reaches the statement, whatever the object's own text would be.
    return f"'{UUID(int=value.int)}'::uuid" if isinstance(value, UUID) else f"{int(value):d}"


def parse_statement(name: str, text: str) -> Statement:
    """Number the named parameters of one statement."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    sql = PARAMETER.sub(number, text).strip().rstrip(";")
    return Statement(name, sql, tuple(names), WRITING.search(COMMENT.sub("", sql)) is not None)


def load_statements(module: str) -> Mapping[str, Statement]:
    """The statements of the SQL file next to a module, by name. Looking up a missing name raises KeyError."""
    package, _, file = module.rpartition(".")
    text = (files(package) / f"{file}.sql").read_text(encoding="utf-8")
    parts = HEADING.split(text)[1:]
    found: dict[str, Statement] = {}
    bodies: dict[str, str] = {}
    for name, given in zip(parts[::2], parts[1::2], strict=True):
        bodies[name] = body = INCLUDED.sub(lambda match: bodies[match[1]], given).strip().rstrip(";")
        body = expand_columns(body)
        found[name] = parse_statement(f"{file}.{name}", _replace(body, NOW))
        if any(placeholder in body for placeholder in THEN):
            found[f"{name}_then"] = parse_statement(f"{file}.{name}_then", _replace(body, THEN))
    return found


def at_time(
    statements: Mapping[str, Statement], name: str, as_of: datetime | None
) -> tuple[Statement, dict[str, datetime]]:
    """The statement for now, or for a time with its parameter."""
    return (statements[name], {}) if as_of is None else (statements[f"{name}_then"], {"as_of": as_of})


def expand_columns(text: str) -> str:
    """The text with the columns of each list. Raises ValueError for a column that the shape does not have."""
    return LIST.sub(_list_columns, text)


def _list_columns(match: re.Match[str]) -> str:
    target, alias, shape = match["target"], match["alias"], match["shape"]
    omitted = match["omitted"].split(", ") if match["omitted"] else []
    if unknown := {*omitted, *({target} - {None, shape})} - {*COLUMNS[shape]}:
        raise ValueError(f"{match[0]} names no columns of the shape: {', '.join(sorted(unknown))}")
    values = {name: f"{alias}.{name}" if alias else name for name in COLUMNS[shape] if name not in omitted}
    return ", ".join(f"{name} = {value}" if target else value for name, value in values.items())


def _replace(text: str, values: Mapping[str, str]) -> str:
    for placeholder, value in values.items():
        text = text.replace(placeholder, value)
    return text
