"""The definitions of functions, triggers, foreign keys and rights, of a database and as recorded from `alembic/sql`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

import asyncpg

from app.db.schema.cluster.metadata import ONE_SERVER, Metadata
from app.db.schema.scripts import SCRIPTS, function_files
from app.db.statements import load_statements

SQL = load_statements(__name__)
RECORD = "definitions.txt"
"""A line for each object of a new database: the digest of its definition, its kind and its name. The first line has the
digest of the files that created it."""
CITUS_RECORD = "definitions_citus.txt"
"""What differs in a cluster of Citus, in the same form; `-` instead of a digest: a cluster does not have the object."""


@dataclass(frozen=True, slots=True)
class Definition:
    """An object, named with its kind; `place` is the shard that it belongs to, which the name and the text omit."""

    name: str
    place: str | None
    text: str

    @property
    def digest(self) -> str:
        """What the record has of the text."""
        return sha256(self.text.encode()).hexdigest()[:32]


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


async def list_definitions(
    connection: asyncpg.Connection[asyncpg.Record], cluster: Metadata = ONE_SERVER
) -> list[Definition]:
    """The objects of the database, and those of the shards on this node."""
    undo = connection.transaction()
    await undo.start()
    try:
        await connection.execute("set local search_path = pg_catalog")
        rows = await connection.fetch(
            SQL["list_definitions"].sql,
            [shard.oid for shard in cluster.shards],
            [shard.base for shard in cluster.shards],
        )
    finally:
        await undo.rollback()
    return [Definition(f"{row['kind']} {row['name']}", row["place"], row["definition"]) for row in rows]


async def read_definitions(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, str]:
    """The digest of each object of the database, by its kind and name."""
    return {found.name: found.digest for found in await list_definitions(connection)}


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


def short_name(name: str) -> str:
    """The name of a function without its parameters, and without the schema public."""
    return re.sub(r"\(.*", "", name.removeprefix("function ")).removeprefix("public.")
