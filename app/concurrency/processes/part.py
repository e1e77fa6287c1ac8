"""One process's part of a service of several processes."""

from __future__ import annotations

from dataclasses import dataclass

from app.concurrency.last_writes import LastWrites
from app.concurrency.processes.addresses import AddressCounts
from app.concurrency.processes.amounts import SharedAmounts
from app.concurrency.processes.buckets import SharedBuckets
from app.concurrency.processes.calls import Calls
from app.concurrency.processes.figures import Figures
from app.concurrency.processes.generations import SharedGenerations
from app.concurrency.processes.memory import KINDS, SharedMemory


@dataclass(frozen=True, slots=True)
class Part:
    """What a process needs in order to keep the service's limits together with the others.

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
        """What tenants hold of this kind."""
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
        """What this process reports of itself."""
        return Figures(self.memory, self.place)

    def calls(self) -> Calls:
        """Calls to the other processes to write what they have not written yet."""
        return Calls(self.memory, self.place)

    def last_writes(self) -> LastWrites:
        """When each tenant was last written to, by any process."""
        return LastWrites(self.memory.last_writes)

    def share_of(self, total: int) -> int:
        """This process's share of what the service may have in total; at least one."""
        return max(1, total // self.processes + (self.number < total % self.processes))
