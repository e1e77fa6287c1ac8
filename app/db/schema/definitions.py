"""Compares functions, triggers and foreign keys with those that the files of `alembic/sql` create."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

import asyncpg

from app.db.schema.scripts import SCRIPTS, function_files
from app.db.statements import load_statements

SQL = load_statements(__name__)
RECORD = "definitions.txt"
"""A line for each object of a new database: the digest of its definition, its kind and its name. The first line has the
digest of the files that created it."""
CITUS_RECORD = "definitions_citus.txt"
"""What differs in a cluster of Citus, in the same form; `-` instead of a digest: a cluster does not have the object."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A missing protection: the rule that found it, the fault, and the remedy."""

    rule: str
    text: str
    remedy: str


@cache
def read_record(*, distributed: bool = False) -> dict[str, str]:
    """The digest of each recorded object, by its kind and name."""
    record = _read_lines(RECORD)
    if distributed:
        record |= _read_lines(CITUS_RECORD)
    return {name: digest for name, digest in record.items() if digest != "-"}


def _read_lines(file: str) -> dict[str, str]:
    _, *lines = (files(__package__) / file).read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, _, name in (line.partition(" ") for line in lines)}


def digest_sources() -> str:
    """A digest of the files that define the schema."""
    texts = [path.read_bytes() for path in sorted((SCRIPTS / "sql").rglob("*.sql"))]
    return sha256(b"\0".join(texts)).hexdigest()[:32]


def render_record(found: dict[str, str]) -> str:
    """The text of the record, after the definitions of a new database."""
    lines = [
        f"{digest_sources()} alembic/sql",
        *(f"{digest} {name}" for name, digest in sorted(found.items())),
    ]
    return "\n".join(lines) + "\n"


def render_differences(found: dict[str, str], distributed: dict[str, str]) -> str:
    """The text of the record for Citus, after the definitions of one server and of a cluster."""
    differing = {name for name, _ in found.items() ^ distributed.items()}
    return render_record({name: distributed.get(name, "-") for name in differing})


async def read_definitions(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, str]:
    """The digest of each object of the database, by its kind and name."""
    undo = connection.transaction()
    await undo.start()
    try:
        await connection.execute("set local search_path = pg_catalog")
        rows = await connection.fetch(SQL["list_definitions"].sql)
    finally:
        await undo.rollback()
    return {
        f"{row['kind']} {row['name']}": sha256(row["definition"].encode()).hexdigest()[:32] for row in rows
    }


async def find_changed_definitions(connection: asyncpg.Connection[asyncpg.Record]) -> list[Fault]:
    """Find objects that differ from the recorded ones, are missing, or act in their place."""
    return list(_compare(read_record(), await read_definitions(connection)))


async def find_changed_functions(
    connection: asyncpg.Connection[asyncpg.Record], *, distributed: bool = False
) -> list[str]:
    """The names of recorded functions that differ or are missing, in the order of `alembic/sql`."""
    found = await read_definitions(connection)
    changed = {
        short_name(name)
        for name, digest in read_record(distributed=distributed).items()
        if name.startswith("function ") and found.get(name) != digest
    }
    return [function for function in function_files(distributed=distributed) if function in changed]


def _compare(record: dict[str, str], found: dict[str, str]) -> Iterator[Fault]:
    own_names = {short_name(name) for name in record if name.startswith("function ")}
    for name in sorted(record.keys() | found.keys()):
        kind, short = name.split(" ")[0], short_name(name)
        if name not in found:
            yield Fault("definitions", f"{name} is missing", _remedy(name))
        elif name in record and record[name] != found[name]:
            yield Fault("definitions", f"{name} differs from its text in alembic/sql", _remedy(name))
        elif name not in record and (
            kind == "trigger" or (kind == "function" and ("." in short or short in own_names))
        ):
            remedy = f"drop {kind} {name.removeprefix(kind + ' ').replace(' of ', ' on ')}"
            yield Fault("definitions", f"{name} is not in alembic/sql", remedy)


def _remedy(name: str) -> str:
    if name.startswith("function ") and short_name(name) in function_files():
        return "run: knowledge migrate"
    return "create it again as alembic/sql does"


def short_name(name: str) -> str:
    """The name of a function without its parameters, and without the schema public."""
    return re.sub(r"\(.*", "", name.removeprefix("function ")).removeprefix("public.")
