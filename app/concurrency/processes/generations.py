"""Changes of tenants that all processes of a service notice."""

from __future__ import annotations

from collections.abc import Hashable

from app.concurrency.processes.memory import SharedMemory


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
