"""Count what tenants and addresses use in all processes of a service, for limits on the totals."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Hashable
from typing import Final

from app.concurrency.processes.memory import ACTIVE, ADDRESSES, SharedMemory, mark_tenant


class AddressCounts:
    """Counts each address at two cells, which few other addresses share; the lower count is the closer one."""

    def __init__(self, memory: SharedMemory, place: int) -> None:
        self._memory = memory
        self._own = memory.addresses(place)

    def add(self, address: str, number: int) -> int:
        """Count `number` more connections of this process; return at least the number of all processes."""
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
