"""One process of a service with several: calls to the others, shared changes and figures."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from app.concurrency.buckets import SharedBuckets
from app.concurrency.generations import LastWrites
from app.concurrency.processes.amounts import AddressCounts, SharedAmounts
from app.concurrency.processes.memory import KINDS, ROW, SharedMemory


class Calls:
    """Counts calls; interested processes read the number from time to time."""

    def __init__(self, memory: SharedMemory, place: int) -> None:
        self._memory = memory
        self._cells = [memory.calls(each) for each in range(memory.places)]
        self._own = self._cells[place]

    @property
    def number(self) -> float:
        """Calls of all processes."""
        return sum(self._memory.numbers[cell] for cell in self._cells)

    def call(self) -> None:
        """Call the others."""
        self._memory.numbers[self._own] += 1


class SharedGenerations:
    """As `Generations`, in shared memory: each process counts its changes of a tenant, and all counts together are the
    tenant's generation."""

    def __init__(self, memory: SharedMemory, place: int) -> None:
        self._memory = memory
        self._place = place

    def current(self, tenant: Hashable) -> list[float]:
        """The generation of the tenant; any change makes it another one."""
        memory = self._memory
        slot = memory.slot(tenant)
        first, end = memory.generations(slot), memory.generations(slot) + memory.places
        return [memory.numbers[memory.born(slot)], *memory.numbers[first:end].tolist()]

    def advance(self, tenant: Hashable) -> None:
        """Begin a new generation."""
        memory = self._memory
        slot = memory.slot(tenant)
        memory.numbers[memory.generations(slot) + self._place] += 1
        memory.use(slot)


_CONNECTIONS, _ACCEPTS, _READY, _FIGURES = 0, 1, 2, 3

MOST_FIGURES: Final = ROW - _FIGURES
"""Figures of a process, in an order that all of them keep."""


class Figures:
    """The row of one process in the shared memory, and the sums of all rows."""

    def __init__(self, memory: SharedMemory, place: int) -> None:
        self._memory = memory
        self._row = memory.row(place)

    @property
    def ready(self) -> bool:
        """Whether the process serves."""
        return bool(self._memory.numbers[self._row + _READY])

    def serve(self, *, accepts: bool) -> None:
        """Note that the process serves, and whether it accepts new connections."""
        self._memory.numbers[self._row + _READY] = 1.0
        self._memory.numbers[self._row + _ACCEPTS] = float(accepts)

    def count_connections(self, number: int) -> None:
        """Publish the number of open connections."""
        self._memory.numbers[self._row + _CONNECTIONS] = number

    def fewest_elsewhere(self) -> float:
        """The least number of connections of another process that accepts more; infinite if none does."""
        rows = self._rows()
        return min((row[_CONNECTIONS] for at, row in rows if at != self._row and row[_ACCEPTS]), default=math.inf)

    def publish(self, figures: list[float]) -> None:
        """Publish this process's figures."""
        first = self._row + _FIGURES
        for cell, value in enumerate(figures[:MOST_FIGURES], first):
            self._memory.numbers[cell] = value

    def all(self) -> list[list[float]]:
        """The figures of each process that has published some."""
        return [row[_FIGURES:] for _, row in self._rows() if any(row[_FIGURES:])]

    def _rows(self) -> list[tuple[int, list[float]]]:
        firsts = [self._memory.row(place) for place in range(self._memory.places)]
        return [(first, list(self._memory.numbers[first : first + ROW])) for first in firsts]


@dataclass(frozen=True, slots=True)
class Part:
    """A process's share in the common limits of a service.

    Attributes:
        memory: what all of them share.
        place: this process's own cells in it.
        number: this process's number, from 0; a process that replaces another has the same.
        processes: how many processes the service has.
    """

    memory: SharedMemory
    place: int
    number: int
    processes: int

    def amounts(self, kind: str) -> SharedAmounts:
        """The amounts that tenants hold of this kind."""
        return SharedAmounts(self.memory, KINDS.index(kind), self.place)

    def buckets(self) -> SharedBuckets:
        """The tenants' requests of the last minute."""
        return SharedBuckets(self.memory)

    def generations(self) -> SharedGenerations:
        """The changes of tenants."""
        return SharedGenerations(self.memory, self.place)

    def addresses(self) -> AddressCounts:
        """The open connections by address."""
        return AddressCounts(self.memory, self.place)

    def figures(self) -> Figures:
        """The figures that this process reports."""
        return Figures(self.memory, self.place)

    def calls(self) -> Calls:
        """Calls to the other processes to write their pending data."""
        return Calls(self.memory, self.place)

    def last_writes(self) -> LastWrites:
        """When each tenant was last written to, by any process."""
        return LastWrites(self.memory.last_writes)

    def share_of(self, total: int) -> int:
        """This process's share of the service's total; at least one."""
        return max(1, total // self.processes + (self.number < total % self.processes))
