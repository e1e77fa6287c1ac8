"""How many servers larger numbers of tenants need: a calculation on paper from measured figures.

Of a node, three things run out: its disk, its memory for the tenants in use, and its cores.

    disk    = passages × bytes of a passage × 2                    (dead rows, builds of indexes, WAL)
    memory  = passages × share in use × bytes that a search reads of a passage
    cores   = searches a second × core seconds of a search ÷ 0.5   (half busy at most)
    nodes   = the largest of the three, each divided by what a node has and rounded up

The service's processes need cores of their own, and memory for nothing that grows. The coordinator has a row for each
tenant and for each shard; it answers one lookup for each tenant and process.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured on one server; bytes and core seconds.

    Attributes:
        passage: rows and indexes of an entry of 1,400 characters with a vector of 384 dimensions.
        read: the part of them that searches read: the vector with its index, and the index of words.
        database: core seconds of Postgres for a search of 10,000 passages.
        service: core seconds of the service for it.
        tenant: bytes of a tenant on the coordinator.
    """

    passage: int = 9_400
    read: int = 3_600
    database: float = 0.016
    service: float = 0.008
    tenant: int = 400


@dataclass(frozen=True, slots=True)
class Node:
    """A server that is bought."""

    cores: int = 16
    memory: int = 128 * 10**9
    disk: int = 8 * 10**12


@dataclass(frozen=True, slots=True)
class Use:
    """What an average tenant has and does; `active` is the share of tenants in use at the same time."""

    passages: int = 10_000
    active: float = 0.05
    searches: float = 0.2
    """A second, of an active tenant."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The servers that a number of tenants needs."""

    tenants: int
    passages: int
    searches: float
    by_disk: int
    by_memory: int
    by_cores: int
    service_cores: int
    coordinator: int
    """Bytes of the coordinator's table of tenants."""

    @property
    def nodes(self) -> int:
        return max(self.by_disk, self.by_memory, self.by_cores)


RESERVE = 2
BUSY = 0.5
FOR_DATA = 0.75
"""The share of a node's memory that holds data."""


def calculate(tenants: int, measured: Measured, node: Node, use: Use) -> Growth:
    """The servers for so many tenants."""
    passages = tenants * use.passages
    searches = tenants * use.active * use.searches
    return Growth(
        tenants=tenants,
        passages=passages,
        searches=searches,
        by_disk=math.ceil(passages * measured.passage * RESERVE / node.disk),
        by_memory=math.ceil(passages * use.active * measured.read / (node.memory * FOR_DATA)),
        by_cores=math.ceil(searches * measured.database / BUSY / node.cores),
        service_cores=math.ceil(searches * measured.service / BUSY),
        coordinator=tenants * measured.tenant,
    )


def render(found: Sequence[Growth]) -> str:
    """The table of the page."""
    lines = [
        "| tenants | passages | searches/s | by disk | by memory | by cores | nodes | service's cores | coordinator |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {g.tenants:,} | {g.passages:,} | {g.searches:,.0f} | {g.by_disk} | {g.by_memory} | {g.by_cores} "
        f"| **{g.nodes}** | {g.service_cores:,} | {g.coordinator / 10**6:,.1f} MB |"
        for g in found
    ]
    return "\n".join(lines)
