"""Memory that the processes of one service share, and the amounts that tenants and addresses use in all of them."""

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


CELLS = 4_096
"""Tenants with the same remainder share a cell: a write to one counts for all of them, which is never wrong."""


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


class AddressCounts:
    """Counts each address at two cells, which few other addresses share; the lower count is the closer one."""

    def __init__(self, memory: SharedMemory, place: int) -> None:
        self._memory = memory
        self._own = memory.addresses(place)

    def add(self, address: str, number: int) -> int:
        """Count `number` more connections of this process; return at least the number of all processes."""
        numbers, counts = self._memory.numbers, []
        everywhere = [self._memory.addresses(place) for place in range(self._memory.places)]
        for cell in self._cells(address):
            numbers[self._own + cell] += number
            counts.append(sum(numbers[first + cell] for first in everywhere))
        return round(min(counts))

    def _cells(self, address: str) -> tuple[int, int]:
        # With a salt, so that no caller can choose addresses that share both cells of another one.
        digest = hashlib.blake2b(address.encode(), digest_size=8, salt=self._memory.salt).digest()
        first, second = int.from_bytes(digest[:4]), int.from_bytes(digest[4:])
        return first % ADDRESSES, ADDRESSES + second % ADDRESSES


LOOK_AGAIN = 0.005
"""Seconds after which a waiting process checks again whether another one has released anything."""

COUNTED_FOR = 0.005
"""Seconds for which the number of active tenants is not counted again."""

LONGEST_TURN = 0.05
"""Seconds for which one process may take everything that is released, before another waiting process goes first."""


class SharedAmounts:
    """Tenants' amounts of one kind: places, or bytes. A process publishes its own and reads the others'."""

    def __init__(self, memory: SharedMemory, kind: int, place: int) -> None:
        self.processes: Final = memory.places
        self._memory = memory
        self._kind = kind
        self._place = place
        self._others = [other for other in range(memory.places) if other != place]
        self._list: Final = memory.active(kind, place)
        self._order: list[Hashable] = []
        self._at: dict[Hashable, int] = {}
        self._counted, self._counted_at = 0, -1.0

    def held(self, tenant: Hashable) -> float:
        """The amount that all processes hold for the tenant."""
        first = self._memory.held(self._memory.slot(tenant), self._kind)
        return float(sum(self._memory.numbers[first : first + self._memory.places].tolist()))

    def held_elsewhere(self, tenant: Hashable) -> float:
        """The amount that the other processes hold for the tenant."""
        first = self._memory.held(self._memory.slot(tenant), self._kind)
        return sum(self._memory.numbers[first + other] for other in self._others)

    def take(self, tenant: Hashable, amount: float, own: float, most: float) -> bool:
        """Take `amount` more than the `own` that this process holds, if all processes then hold at most `most`."""
        memory, numbers, now = self._memory, self._memory.numbers, time.monotonic()
        slot = memory.slot(tenant)
        first = memory.held(slot, self._kind)
        since = first + memory.places + self._place
        memory.lock(first)
        try:
            held = numbers[first : first + memory.places].tolist()
            taken = sum(held) - held[self._place] + own + amount <= most and not self._yields(first, now)
            if taken:
                numbers[first + self._place] = own + amount
        finally:
            memory.unlock(first)
        if not taken:
            numbers[since] = numbers[since] or now
            numbers[since + memory.places] = now
        elif numbers[since]:
            numbers[since] = now
        memory.use(slot)
        return taken

    def publish(self, tenant: Hashable, own: float, waits: bool = False) -> None:
        """Publish the amount that this process holds for the tenant now; `waits`: it still waits for more."""
        memory = self._memory
        first = memory.held(memory.slot(tenant), self._kind)
        memory.numbers[first + self._place] = own
        if not waits:
            since = first + memory.places + self._place
            memory.numbers[since] = memory.numbers[since + memory.places] = 0.0

    def _yields(self, first: int, now: float) -> bool:
        """Whether another process that is still trying has waited so much longer that it goes first."""
        places = self._memory.places
        since = self._memory.numbers[first + places : first + 2 * places].tolist()
        tried = self._memory.numbers[first + 2 * places : first + 3 * places].tolist()
        own = since[self._place] or now
        return any(
            0.0 < since[other] < own - LONGEST_TURN and tried[other] > now - LONGEST_TURN for other in self._others
        )

    def enter(self, tenant: Hashable) -> None:
        """Count the tenant as active in this process, and list it if there is room."""
        if tenant in self._at:
            return
        at = self._at[tenant] = len(self._order)
        self._order.append(tenant)
        self._write(at)

    def leave(self, tenant: Hashable) -> None:
        """Count the tenant no more; the last one takes its cell."""
        at = self._at.pop(tenant, None)
        if at is None:
            return
        last = self._order.pop()
        if last != tenant:
            self._order[at], self._at[last] = last, at
        self._write(at)

    def _write(self, at: int) -> None:
        """Write the tenant of this place, and the number of tenants."""
        if at < min(ACTIVE, len(self._order)):
            self._memory.numbers[self._list + 1 + at] = mark_tenant(self._order[at])
        self._memory.numbers[self._list] = len(self._order)

    def count_active(self) -> int:
        """Tenants that are active in any process; unlisted ones count once for each process."""
        now = time.monotonic()
        if now - self._counted_at < COUNTED_FOR:
            return max(self._counted, len(self._order))
        numbers, listed, others = self._memory.numbers, set[float](), 0
        for place in range(self._memory.places):
            first = self._memory.active(self._kind, place)
            count = int(numbers[first])
            listed.update(numbers[first + 1 : first + 1 + min(count, ACTIVE)].tolist())
            others += max(0, count - ACTIVE)
        self._counted, self._counted_at = len(listed) + others, now
        return self._counted
