"""Open connections by address, of all processes of a service."""

from __future__ import annotations

import hashlib

from app.concurrency.processes.memory import ADDRESSES, SharedMemory


class AddressCounts:
    """Counts each address at two cells, which few other addresses share; the lower count is the closer one."""

    def __init__(self, memory: SharedMemory, place: int) -> None:
        self._memory = memory
        self._own = memory.addresses(place)

    def add(self, address: str, number: int) -> int:
        """Count `number` more connections of this process; returns those of all processes, at least."""
        numbers, counts = self._memory.numbers, []
        for cell in self._cells(address):
            numbers[self._own + cell] += number
            counts.append(sum(numbers[first + cell] for first in self._all()))
        return round(min(counts))

    def _all(self) -> list[int]:
        return [self._memory.addresses(place) for place in range(self._memory.places)]

    def _cells(self, address: str) -> tuple[int, int]:
        # With a salt, so that no caller can choose addresses that share both cells of another one.
        digest = hashlib.blake2b(address.encode(), digest_size=8, salt=self._memory.salt).digest()
        first, second = int.from_bytes(digest[:4]), int.from_bytes(digest[4:])
        return first % ADDRESSES, ADDRESSES + second % ADDRESSES
