"""One process of a service with several: its calls to the others, and the changes, requests and figures of tenants."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from app.concurrency.memory import CELLS, KINDS, ROW, SharedAmounts, SharedMemory

REMEMBERED = 10_000
"""Tenants whose changes and requests are kept separately: the change of one more begins a new generation of all, and
after a minute without requests a tenant's bucket is full anyway."""


class Generations:
    """Counts the changes of tenants in this process; each change begins the tenant's next generation."""

    def __init__(self) -> None:
        self._changes = 0
        self._common = 0
        self._own: dict[Hashable, int] = {}

    def current(self, tenant: Hashable) -> list[float]:
        """The generation of the tenant; any change makes it another one."""
        return [self._own.get(tenant, self._common)]

    def advance(self, tenant: Hashable) -> None:
        """Begin a new generation."""
        self._changes += 1
        if len(self._own) >= REMEMBERED:
            self._own.clear()
            self._common = self._changes
        self._own[tenant] = self._changes


class Cells(Protocol):
    """Numbers by place: a list, or memory that several processes share."""

    def __getitem__(self, place: int, /) -> float: ...

    def __setitem__(self, place: int, value: float, /) -> None: ...


class LastWrites:
    """Times by the clock `time.monotonic`, which all processes of a machine share."""

    def __init__(self, cells: Cells | None = None) -> None:
        self._cells = [0.0] * CELLS if cells is None else cells

    def note(self, tenant_id: UUID) -> None:
        """The tenant was written to just now."""
        self._cells[tenant_id.int % CELLS] = time.monotonic()

    def at(self, tenant_id: UUID) -> float:
        """When the tenant was last written to, or later; 0 if never."""
        return self._cells[tenant_id.int % CELLS]


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Buckets:
    """The buckets of this process. Without a tenant's requests for a minute, its bucket is full."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def take(self, tenant: Hashable, limit: int) -> float:
        """Take one of the tenant's requests; returns 0, or the seconds until there is one again."""
        now = self._clock()
        bucket = self._buckets.setdefault(tenant, _Bucket(limit, now))
        bucket.tokens, bucket.at = refill(bucket.tokens, bucket.at, now, limit), now
        self._buckets.move_to_end(tenant)
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        if bucket.tokens < 1:
            return (1 - bucket.tokens) * 60 / limit
        bucket.tokens -= 1
        return 0.0

    def charge(self, tenant: Hashable, requests: int) -> None:
        """Take further requests of a tenant that has taken one, even if there are none."""
        if tenant in self._buckets:
            self._buckets[tenant].tokens -= requests

    def left(self, tenant: Hashable, limit: int) -> float:
        """Requests that are left to the tenant."""
        bucket = self._buckets.get(tenant)
        return limit if bucket is None else refill(bucket.tokens, bucket.at, self._clock(), limit)


def refill(tokens: float, at: float, now: float, limit: int) -> float:
    """The rest of `limit` now, if `tokens` were left at the time `at`."""
    return min(limit, tokens + (now - at) * limit / 60)


class SharedBuckets:
    """As `Buckets`, in shared memory: a tenant's limit applies to all processes together."""

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory

    def take(self, tenant: Hashable, limit: int) -> float:
        """Take one of the tenant's requests; returns 0, or the seconds until there is one again."""
        memory, now = self._memory, time.monotonic()
        slot = memory.slot(tenant)
        bucket = memory.bucket(slot)
        memory.lock(bucket)
        try:
            tokens = self._refill(bucket, now, limit)
            memory.numbers[bucket] = tokens - 1 if tokens >= 1 else tokens
            memory.numbers[bucket + 1] = now
        finally:
            memory.unlock(bucket)
        memory.use(slot)
        return 0.0 if tokens >= 1 else (1 - tokens) * 60 / limit

    def charge(self, tenant: Hashable, requests: int) -> None:
        """Take further requests of a tenant that has taken one, even if there are none."""
        memory = self._memory
        bucket = memory.bucket(memory.slot(tenant))
        memory.lock(bucket)
        try:
            memory.numbers[bucket] -= requests if memory.numbers[bucket + 1] else 0
        finally:
            memory.unlock(bucket)

    def left(self, tenant: Hashable, limit: int) -> float:
        """Requests that are left to the tenant."""
        return self._refill(self._memory.bucket(self._memory.slot(tenant)), time.monotonic(), limit)

    def _refill(self, bucket: int, now: float, limit: int) -> float:
        tokens, at = self._memory.numbers[bucket : bucket + 2].tolist()
        return refill(tokens, at, now, limit) if at else limit


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

    def generations(self) -> SharedGenerations:
        """The changes of tenants."""
        return SharedGenerations(self.memory, self.place)

    def figures(self) -> Figures:
        """The figures that this process reports."""
        return Figures(self.memory, self.place)

    def share_of(self, total: int) -> int:
        """This process's share of the service's total; at least one."""
        return max(1, total // self.processes + (self.number < total % self.processes))
