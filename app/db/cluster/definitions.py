"""Compare a node's shards with their tables, and the copies of functions with the functions."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from app.db.cluster.metadata import Metadata, Shard
from app.db.cluster.sessions import TAKES_ROW, fill, mark
from app.db.rows import Connection
from app.db.schema.definitions import Definition, Fault, compare, list_definitions, read_record, short_name

COPY = re.compile(r"(\w+(?:\.\w+)?)_(\d{5,})")
"""The name of a function's copy for a group of shards: the function's name, and the number of the group."""


async def find_changes_of_node(connection: Connection, cluster: Metadata) -> list[Fault]:
    """As `find_changed_definitions`, on a node of a cluster and in its shards."""
    record = read_record(distributed=True)
    by_place: defaultdict[str | None, dict[str, Definition]] = defaultdict(dict)
    for each in await list_definitions(connection, cluster.shards):
        by_place[each.place][each.name] = each
    found = by_place[None]
    plain = {name: each for name, each in found.items() if _split_copy(name, cluster) is None}
    # The triggers of a table with shards are theirs. Only the coordinator's table has them too, for new shards.
    here = {
        name: digest
        for name, digest in record.items()
        if cluster.is_coordinator or name in plain or not name.startswith("trigger ")
    }
    return [
        *compare(here, plain),
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


def _compare_shard(record: Mapping[str, str], found: Mapping[str, Definition], shard: Shard) -> Iterator[Fault]:
    """Compare a shard's triggers, foreign keys and rights with its table's."""
    ends = {"trigger": f" of public.{shard.table}", "rights": f" on public.{shard.table}"}
    expected = {
        name: digest
        for name, digest in record.items()
        if name.startswith(f"foreign key of public.{shard.table}:")
        or name.endswith(ends.get(name.partition(" ")[0], "\0"))
    }
    for fault in compare(expected, found):
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
