"""Memory that the processes of one service share, and that survives the death of any of them."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import tempfile
import time
import weakref
from collections.abc import Hashable
from typing import Final
from uuid import UUID

from app.concurrency.generations import CELLS

KINDS: Final = ("searches", "connections", "queries", "bodies", "answers", "unread")
"""The kinds of amounts that tenants hold, in the order of their cells."""

SETS, WAYS = 2_048, 8
"""A tenant has one of the `WAYS` slots of its set; a new tenant replaces the one that was used the longest ago."""

ACTIVE = 512
"""Tenants that a process lists as active, for each kind. It only counts the others: a tenant that is active in several
processes then counts several times, so shares are smaller than they could be, and never larger."""

CELL = 8
"""Bytes: every cell is a number of 64 bits."""

LOCK_TRIES = 2_000
"""Tries, after which the work is done without the lock: a process that was stopped must not stop the others."""

_KEY, _USED, _BORN, _TOKENS, _AT, _GENERATIONS = 0, 2, 3, 4, 5, 6
"""Cells of a slot; the key has two, and after these each process has its own."""

ROW = 64
"""Cells of a process: its id, its connections, whether it accepts more, and its figures."""

ADDRESSES = 4_096
"""Cells of a process for each of two hashes of an address."""


class SharedMemory:
    """Cells for `places` processes. Each process writes only its own cells, except those of a lock that it holds, and
    `last_writes`.

    Create it before the processes, which inherit it.
    """

    def __init__(self, places: int) -> None:
        self.places: Final = places
        self.salt: Final = os.urandom(16)
        self._slot_cells = _GENERATIONS + places + 3 * len(KINDS) * places
        self._rows = SETS * WAYS * self._slot_cells
        self._active = self._rows + places * ROW
        self._addresses = self._active + places * len(KINDS) * (ACTIVE + 1)
        self._calls = self._addresses + places * 2 * ADDRESSES
        writes = self._calls + places
        cells = writes + CELLS
        self._file: Final = _open_file()
        os.ftruncate(self._file, cells * CELL)
        weakref.finalize(self, os.close, self._file)
        mapped = memoryview(mmap.mmap(self._file, cells * CELL))
        self.numbers: Final = mapped.cast("d")
        self._words: Final = mapped.cast("Q")
        self.last_writes: Final = self.numbers[writes:cells]
        """Shared by all processes: each writes the present time, so it does not matter whose write remains."""
        self._known: dict[Hashable, tuple[int, int, int]] = {}

    def row(self, place: int) -> int:
        """The first cell of a process."""
        return self._rows + place * ROW

    def active(self, kind: int, place: int) -> int:
        """The first cell of the list of tenants that are active in a process; it has the number of all of them."""
        return self._active + (place * len(KINDS) + kind) * (ACTIVE + 1)

    def addresses(self, place: int) -> int:
        """The first cell of a process's counts of connections by address."""
        return self._addresses + place * 2 * ADDRESSES

    def calls(self, place: int) -> int:
        """The cell in which a process counts its calls to the others; they are never cleared."""
        return self._calls + place

    def bucket(self, slot: int) -> int:
        """The first of the two cells of a tenant's bucket of requests: tokens left, and when they were counted."""
        return slot + _TOKENS

    def born(self, slot: int) -> int:
        """The cell before the cells of the generations: when the slot was given to the tenant."""
        return slot + _BORN

    def generations(self, slot: int) -> int:
        """The first of the cells of the tenant's generation, one for each process."""
        return slot + _GENERATIONS

    def held(self, slot: int, kind: int) -> int:
        """The first of the cells of what each process holds for the tenant.

        Then come those for since when each waits for others to release more, and for when each last tried to take it.
        """
        return slot + _GENERATIONS + self.places * (1 + 3 * kind)

    def slot(self, tenant: Hashable) -> int:
        """The tenant's first cell."""
        known = self._known.get(tenant)
        if known is None:
            high, low = _key_of(tenant)
            slot = self._find(high, low)
            if len(self._known) >= SETS * WAYS:
                self._known.clear()
            self._known[tenant] = (slot, high, low)
            return slot
        slot, high, low = known
        if self._words[slot] != high or self._words[slot + 1] != low:
            slot = self._find(high, low)
            self._known[tenant] = (slot, high, low)
        return slot

    def use(self, slot: int) -> None:
        """Note that the slot is in use; others are replaced before it."""
        self.numbers[slot + _USED] = time.monotonic()

    def lock(self, cell: int) -> None:
        """Hold the lock of a cell; the kernel releases it if this process dies."""
        for _ in range(LOCK_TRIES):
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, cell * CELL)
            except OSError:
                os.sched_yield()
            else:
                return

    def unlock(self, cell: int) -> None:
        """Release the lock of a cell."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, cell * CELL)

    def clear(self, place: int) -> None:
        """Remove everything that a process held when it ended; its counts of tenants' requests stay."""
        numbers, kinds = self.numbers, range(len(KINDS))
        for slot in range(0, self._rows, self._slot_cells):
            if self._words[slot]:
                for cell in (self.held(slot, kind) + place for kind in kinds):
                    numbers[cell] = numbers[cell + self.places] = numbers[cell + 2 * self.places] = 0.0
        for kind in kinds:
            numbers[self.active(kind, place)] = 0.0
        for first, count in ((self.row(place), ROW), (self.addresses(place), 2 * ADDRESSES)):
            numbers[first : first + count] = memoryview(bytes(count * CELL)).cast("d")

    def _find(self, high: int, low: int) -> int:
        first = (high ^ low) % SETS * WAYS * self._slot_cells
        slots = range(first, first + WAYS * self._slot_cells, self._slot_cells)
        if (found := self._look(slots, high, low)) is not None:
            return found
        self.lock(first)
        try:
            if (found := self._look(slots, high, low)) is not None:
                return found
            slot = min(slots, key=lambda slot: (self._is_held(slot), self.numbers[slot + _USED]))
            self.numbers[slot : slot + self._slot_cells] = memoryview(bytes(self._slot_cells * CELL)).cast("d")
            self.numbers[slot + _BORN] = time.monotonic()
            self.use(slot)
            self._words[slot + 1] = low
            self._words[slot] = high
            return slot
        finally:
            self.unlock(first)

    def _look(self, slots: range, high: int, low: int) -> int | None:
        for slot in slots:
            if self._words[slot] == high and self._words[slot + 1] == low:
                return slot
        return None

    def _is_held(self, slot: int) -> bool:
        return any(self.numbers[slot + _GENERATIONS + self.places : slot + self._slot_cells].tolist())


def _open_file() -> int:
    """A file without a name; the kernel would write one of a disk to it again and again."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("knowledge-search")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def mark_tenant(tenant: Hashable) -> float:
    """A number of 53 bits that a cell holds exactly, and that no two active tenants share."""
    high, low = _key_of(tenant)
    return float((high ^ low) & (1 << 53) - 1)


def _key_of(tenant: Hashable) -> tuple[int, int]:
    """128 bits, of which the first 64 are not zero."""
    if isinstance(tenant, UUID):
        number = tenant.int
    else:
        number = int.from_bytes(hashlib.blake2b(str(tenant).encode(), digest_size=16).digest())
    return number >> 64 or 1, number & (1 << 64) - 1
