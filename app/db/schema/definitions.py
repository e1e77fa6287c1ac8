"""Compare a database's functions, triggers, foreign keys and rights with those of `alembic/sql`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from app.db.cluster.metadata import Shard
from app.db.rows import Connection
from app.db.schema.scripts import SCRIPTS, function_files
from app.db.statements import load_statements

SQL = load_statements(__name__)
RECORD = "definitions.txt"
"""A line for each object of a new database: the digest of its definition, its kind and its name. The first line has the
digest of the files that created it."""
CITUS_RECORD = "definitions_citus.txt"
"""The objects that differ in a Citus cluster, in the same form; `-` instead of a digest: the cluster lacks it."""


@dataclass(frozen=True, slots=True)
class Definition:
    """An object, named with its kind; `place` is the shard that it belongs to, which the name and the text omit."""

    name: str
    place: str | None
    text: str

    @property
    def digest(self) -> str:
        """The part of the text that the record contains."""
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
    lines = [f"{digest_sources()} alembic/sql", *(f"{digest} {name}" for name, digest in sorted(found.items()))]
    return "\n".join(lines) + "\n"


def render_differences(found: dict[str, str], distributed: dict[str, str]) -> str:
    """The text of the record for Citus, after the definitions of one server and of a cluster."""
    differing = {name for name, _ in found.items() ^ distributed.items()}
    return render_record({name: distributed.get(name, "-") for name in differing})


async def list_definitions(connection: Connection, shards: Sequence[Shard] = ()) -> list[Definition]:
    """The objects of the database, and of the shards of a node."""
    undo = connection.transaction()
    await undo.start()
    try:
        await connection.execute("set local search_path = pg_catalog")
        rows = await connection.fetch(
            SQL["list_definitions"].sql, [shard.oid for shard in shards], [shard.base for shard in shards]
        )
    finally:
        await undo.rollback()
    return [Definition(f"{row['kind']} {row['name']}", row["place"], row["definition"]) for row in rows]


async def read_definitions(connection: Connection) -> dict[str, str]:
    """The digest of each object of the database, by its kind and name."""
    return {found.name: found.digest for found in await list_definitions(connection)}


async def digest_definitions(connection: Connection) -> str:
    """A digest of all objects of the database, for its seal."""
    lines = sorted(f"{name}\n{digest}" for name, digest in (await read_definitions(connection)).items())
    return sha256("\n".join(lines).encode()).hexdigest()


async def find_changed_functions(connection: Connection, *, distributed: bool = False) -> list[str]:
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


@dataclass(frozen=True, slots=True)
class Fault:
    """A missing protection: the rule that found it, the fault, and the remedy."""

    rule: str
    text: str
    remedy: str


async def find_changed_definitions(connection: Connection) -> list[Fault]:
    """Find objects that differ from the recorded ones, are missing, or act in their place."""
    return list(compare(read_record(), {found.name: found for found in await list_definitions(connection)}))


def compare(record: Mapping[str, str], found: Mapping[str, Definition]) -> Iterator[Fault]:
    """The faults of the found objects; `record` has the digest of each object, by its kind and name."""
    own_names = {short_name(name) for name in record if name.startswith("function ")}
    for name in sorted(record.keys() | found.keys()):
        kind, short = name.split(" ")[0], short_name(name)
        if name not in found:
            yield Fault("definitions", f"{name} is missing", _remedy(name))
        elif name in record and record[name] != found[name].digest:
            yield Fault("definitions", f"{name} differs from its text in alembic/sql", _remedy(name))
        elif name not in record and (
            kind in ("trigger", "rights") or (kind == "function" and ("." in short or short in own_names))
        ):
            yield Fault("definitions", f"{name} is not in alembic/sql", _removal(name, kind))


def _removal(name: str, kind: str) -> str:
    thing = name.removeprefix(f"{kind} ")
    if kind == "rights":
        role, _, table = thing.removeprefix("of ").partition(" on ")
        return f"revoke all on {table} from {role}"
    return f"drop {kind} {thing.replace(' of ', ' on ')}"


def _remedy(name: str) -> str:
    if name.startswith("function ") and short_name(name) in function_files(distributed=True):
        return "run: knowledge migrate"
    return "create it again as alembic/sql does"
