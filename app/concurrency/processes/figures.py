"""What each process of a service reports of itself, for a scrape that any of them answers."""

from __future__ import annotations

import math
from typing import Final

from app.concurrency.processes.memory import ROW, SharedMemory

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
        return min(
            (row[_CONNECTIONS] for at, row in rows if at != self._row and row[_ACCEPTS]), default=math.inf
        )

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
