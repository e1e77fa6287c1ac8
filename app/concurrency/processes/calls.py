"""Calls from one process of a service to all others."""

from __future__ import annotations

from app.concurrency.processes.memory import SharedMemory


class Calls:
    """Counts calls; a process that cares looks at the number from time to time."""

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
