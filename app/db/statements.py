"""Loads SQL statements from the `.sql` file next to the module that runs them.

Files are read once, and named parameters are converted to asyncpg's numbered ones.

A file holds statements headed `-- name: fetch_entry`; comments that follow describe them. `:name` is a bound
parameter. `{model_id}` is a literal integer, needed where the planner must see the value to pick a partial
index; `Statement.literal` accepts integers only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")
HEADING = re.compile(r"^-- name: ([a-z_]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement: `sql` with $1, $2, … and the names of its `parameters` in that order."""

    name: str
    sql: str
    parameters: tuple[str, ...]

    def literal(self, **integers: int) -> Statement:
        """The statement with its `{name}` placeholders replaced by integers."""
        return _with_literals(self, tuple(sorted(integers.items())))


@lru_cache(maxsize=1024)
def _with_literals(statement: Statement, integers: tuple[tuple[str, int], ...]) -> Statement:
    values = {name: f"{int(value):d}" for name, value in integers}
    return Statement(statement.name, statement.sql.format(**values), statement.parameters)


def parse_statement(name: str, text: str) -> Statement:
    """Number the named parameters of one statement."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    return Statement(name, PARAMETER.sub(number, text).strip().rstrip(";"), tuple(names))


def load_statements(module: str) -> Mapping[str, Statement]:
    """The statements of the SQL file next to a module, by name. Looking up a missing name raises KeyError."""
    package, _, file = module.rpartition(".")
    text = (files(package) / f"{file}.sql").read_text(encoding="utf-8")
    parts = HEADING.split(text)[1:]
    return {
        name: parse_statement(f"{file}.{name}", body)
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }
