"""Compare a database's functions, triggers, foreign keys and rights with those of `alembic/sql`."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from app.db.cluster.metadata import ONE_SERVER, Metadata, Shard
from app.db.cluster.sessions import TAKES_ROW, fill, mark
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


async def list_definitions(connection: Connection, cluster: Metadata = ONE_SERVER) -> list[Definition]:
    """The objects of the database, and of the shards on this node."""
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


COPY = re.compile(r"(\w+(?:\.\w+)?)_(\d{5,})")
"""The name of a function's copy for a group of shards: the function's name, and the number of the group."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A missing protection: the rule that found it, the fault, and the remedy."""

    rule: str
    text: str
    remedy: str


async def find_changed_definitions(connection: Connection, cluster: Metadata = ONE_SERVER) -> list[Fault]:
    """Find objects that differ from the recorded ones, are missing, or act in their place."""
    record = read_record(distributed=cluster.is_distributed)
    definitions = await list_definitions(connection, cluster)
    by_place: defaultdict[str | None, dict[str, Definition]] = defaultdict(dict)
    for each in definitions:
        by_place[each.place][each.name] = each
    found = by_place[None]
    if not cluster.is_distributed:
        return list(_compare(record, found))
    plain = {name: each for name, each in found.items() if _split_copy(name, cluster) is None}
    # The triggers of a table with shards are theirs. Only the coordinator's table has them too, for new shards.
    here = {
        name: digest
        for name, digest in record.items()
        if cluster.is_coordinator or name in plain or not name.startswith("trigger ")
    }
    return [
        *_compare(here, plain),
        *(
            Fault("definitions", f"{name} differs from the function that it copies", "run: knowledge migrate")
            for name, _ in _false_copies(found, cluster)
        ),
        *(
            fault
            for shard in cluster.shards
            if shard.is_here
            for fault in _compare_shard(record, by_place[shard.name], shard)
        ),
    ]


def _compare(record: Mapping[str, str], found: Mapping[str, Definition]) -> Iterator[Fault]:
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


def _compare_shard(record: Mapping[str, str], found: Mapping[str, Definition], shard: Shard) -> Iterator[Fault]:
    """Compare a shard's triggers, foreign keys and rights with its table's."""
    ends = {"trigger": f" of public.{shard.table}", "rights": f" on public.{shard.table}"}
    expected = {
        name: digest
        for name, digest in record.items()
        if name.startswith(f"foreign key of public.{shard.table}:")
        or name.endswith(ends.get(name.partition(" ")[0], "\0"))
    }
    for fault in _compare(expected, found):
        yield Fault(fault.rule, f"on the shard {shard.name}: {fault.text}", fault.remedy)


async def find_false_copies(connection: Connection, cluster: Metadata) -> Mapping[str, int]:
    """The copies of functions that differ from these, each with the number of its group."""
    found = {each.name: each for each in await list_definitions(connection)}
    return dict(_false_copies(found, cluster))


def _false_copies(found: Mapping[str, Definition], cluster: Metadata) -> Iterator[tuple[str, int]]:
    for name, copy in found.items():
        if (parts := _split_copy(name, cluster)) is None:
            continue
        function, group = parts
        origin = found.get(name.replace(f"_{group}(", "(", 1))
        if origin is None or not _is_true_copy(copy.text, origin.text, function, group, cluster):
            yield name, group


def _is_true_copy(copy: str, origin: str, function: str, group: int, cluster: Metadata) -> bool:
    tables = cluster.groups.get(group)
    if tables is None:
        # The shard was split into others, and nothing calls the copy any more.
        tables = {table: table for each in cluster.groups.values() for table in each}
        copy = re.sub(rf"\b({'|'.join((*tables, *cluster.functions))})_\d{{5,}}\b", r"\1", copy)
        functions = {each: each for each in cluster.functions}
    else:
        functions = {each: f"{each}_{group}" for each in cluster.functions}
    marked = mark(origin, tables, functions, casts=function not in TAKES_ROW)
    return copy == fill(marked, {**tables, **functions})


def _split_copy(name: str, cluster: Metadata) -> tuple[str, int] | None:
    """The function and the group of a copy; None for other objects."""
    parts = COPY.fullmatch(short_name(name)) if name.startswith("function ") else None
    return (parts[1], int(parts[2])) if parts is not None and parts[1] in cluster.functions else None


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
