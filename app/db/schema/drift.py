"""Compares functions, triggers, foreign keys and rights with those that the files of `alembic/sql` create."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import asyncpg

from app.db.citus.naming import SHARD_FUNCTIONS, fill, mark
from app.db.schema.cluster.metadata import ONE_SERVER, Metadata, Shard
from app.db.schema.definitions import Definition, list_definitions, read_record, short_name
from app.db.schema.scripts import function_files

COPY = re.compile(r"(\w+(?:\.\w+)?)_(\d{5,})")
"""The name of a function's copy for a group of shards: the function's name, and the number of the group."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A missing protection: the rule that found it, the fault, and the remedy."""

    rule: str
    text: str
    remedy: str


async def find_changed_definitions(
    connection: asyncpg.Connection[asyncpg.Record], cluster: Metadata = ONE_SERVER
) -> list[Fault]:
    """Find objects that differ from the recorded ones, are missing, or act in their place."""
    record = read_record(distributed=cluster.is_distributed)
    definitions = await list_definitions(connection, cluster)
    by_place: defaultdict[str | None, dict[str, Definition]] = defaultdict(dict)
    for each in definitions:
        by_place[each.place][each.name] = each
    found = by_place[None]
    if not cluster.is_distributed:
        return list(_compare(record, found))
    plain = {name: each for name, each in found.items() if _split_copy(name) is None}
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
            for name, _ in _false_copies(found, cluster.groups)
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


def _compare_shard(
    record: Mapping[str, str], found: Mapping[str, Definition], shard: Shard
) -> Iterator[Fault]:
    """Compare the triggers, foreign keys and rights of a shard with those of its table."""
    ends = {"trigger": f" of public.{shard.table}", "rights": f" on public.{shard.table}"}
    expected = {
        name: digest
        for name, digest in record.items()
        if name.startswith(f"foreign key of public.{shard.table}:")
        or name.endswith(ends.get(name.partition(" ")[0], "\0"))
    }
    for fault in _compare(expected, found):
        yield Fault(fault.rule, f"on the shard {shard.name}: {fault.text}", fault.remedy)


async def find_false_copies(
    connection: asyncpg.Connection[asyncpg.Record], cluster: Metadata
) -> Mapping[str, int]:
    """The copies of functions that differ from these, each with the number of its group."""
    found = {each.name: each for each in await list_definitions(connection)}
    return dict(_false_copies(found, cluster.groups))


def _false_copies(
    found: Mapping[str, Definition], groups: Mapping[int, Mapping[str, str]]
) -> Iterator[tuple[str, int]]:
    for name, copy in found.items():
        if (parts := _split_copy(name)) is None:
            continue
        function, group = parts
        origin = found.get(name.replace(f"_{group}(", "(", 1))
        if origin is None or not _is_true_copy(copy.text, origin.text, function, group, groups):
            yield name, group


def _is_true_copy(
    copy: str, origin: str, function: str, group: int, groups: Mapping[int, Mapping[str, str]]
) -> bool:
    tables = groups.get(group)
    if tables is None:
        # The shard was split into others, and nothing calls the copy any more.
        tables = {table: table for each in groups.values() for table in each}
        copy = re.sub(rf"\b({'|'.join((*tables, *SHARD_FUNCTIONS))})_\d{{5,}}\b", r"\1", copy)
        functions = {each: each for each in SHARD_FUNCTIONS}
    else:
        functions = {each: f"{each}_{group}" for each in SHARD_FUNCTIONS}
    # The argument of entry_matches is a row of the table already.
    marked = mark(origin, tables, casts=function != "entry_matches")
    return copy == fill(marked, {**tables, **functions})


def _split_copy(name: str) -> tuple[str, int] | None:
    """The function and the group of a copy; None for other objects."""
    parts = COPY.fullmatch(short_name(name)) if name.startswith("function ") else None
    return (parts[1], int(parts[2])) if parts is not None and parts[1] in SHARD_FUNCTIONS else None


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
