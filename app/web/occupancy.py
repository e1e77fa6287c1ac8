"""Count the connections of each address and the unread answers of each tenant in this process."""

import logging
import resource
import time
from collections import Counter
from collections.abc import Hashable
from ipaddress import IPv6Address, ip_address
from typing import Protocol

from app.concurrency.background import MemoryRelease
from app.concurrency.limits import Pace
from app.concurrency.memory import AddressCounts
from app.concurrency.part import Part

log = logging.getLogger("app.api.connections")

DESCRIPTORS = 65_536
"""Soft limit of open files that the service sets for itself, or the hard limit if that is lower."""

SPARE_DESCRIPTORS = 128
"""Descriptors that connections leave for the database, files and the parser."""

UNREAD_BYTES = 16 * 1024 * 1024
"""Answers of one tenant that wait to be read; above it, the connection that waits longest is closed."""

UNREAD_TOTAL = 8 * UNREAD_BYTES
"""The same of all tenants together; above it, the tenant with the most loses the connection that waits longest."""

STRANGERS_PER_SECOND = 200
"""Answers to callers without a valid token, such as probes and those that are refused; further ones wait."""

STRANGERS_AT_ONCE = 100
"""Of these answers, those that need not wait after a pause: a browser loads a page and its files."""

RESTS_PER_SECOND = 128
"""Parts of at most 256 KiB of bodies that were answered before all of them came; further parts wait, unread."""

RESTS_AT_ONCE = 16
"""Of these parts, those that need not wait after a pause."""

HOLD_SECONDS = 5.0
"""A connection over a limit is refused after this time, so that its caller does not open the next one at once."""

HELD = 1_000
"""Connections that wait to be refused; further ones are closed without an answer."""

QUIET_SECONDS = 60.0
"""Between two log lines about refused connections."""


class Waiting(Protocol):
    """A connection whose answer is not read."""

    def unread(self) -> int:
        """Bytes that wait to be read."""

    def drop(self) -> None:
        """End the connection at once."""


class Occupancy:
    """Counts connections and unread answers, and decides which connections are refused or closed."""

    def __init__(
        self,
        *,
        per_address: int = 0,
        total: int = 0,
        unread: int = UNREAD_BYTES,
        all_unread: int = UNREAD_TOTAL,
        part: Part | None = None,
        hold_seconds: float = HOLD_SECONDS,
        most_held: int = HELD,
    ) -> None:
        """`per_address` and `total` are numbers of connections, 0 means unlimited; `unread` and `all_unread` are bytes,
        of one tenant and of all. With `part`, the limits of an address and of a tenant hold for all processes of the
        service together."""
        self._per_address = per_address
        self._total = total
        self._most_unread = unread
        self._most_of_all = all_unread
        self.hold_seconds = hold_seconds
        self._most_held = most_held
        self._held = 0
        self._open: Counter[str] = Counter()
        self._waiting: dict[Hashable, dict[Waiting, int]] = {}
        """By tenant, in the order in which they began to wait: connections, and their bytes at that moment."""
        self._unread = 0
        self._addresses = None if part is None else AddressCounts(part.memory, part.place)
        self._figures = None if part is None else part.figures()
        self._common = None if part is None else part.amounts("unread")
        self.strangers = Pace(STRANGERS_PER_SECOND, STRANGERS_AT_ONCE)
        self.rests = Pace(RESTS_PER_SECOND, RESTS_AT_ONCE)
        self._memory = MemoryRelease()
        self._refused = 0
        self._reported = -QUIET_SECONDS

    def enter(self, address: str) -> bool:
        """Count a new connection, and return whether it is within the limits. `leave` follows in any case."""
        place = network_of(address)
        self._open[place] += 1
        self._publish()
        number = self._open[place] if self._addresses is None else self._addresses.add(place, 1)
        within = not self._per_address or number <= self._per_address
        if within and (not self._total or self._open.total() <= self._total):
            return True
        self._refused += 1
        if time.monotonic() - self._reported >= QUIET_SECONDS:
            self._reported = time.monotonic()
            log.warning(
                "connections refused",
                extra={
                    "refused": self._refused,
                    "address": place,
                    "connections": number,
                    "limit": self._total if within else self._per_address,
                },
            )
            self._refused = 0
        return False

    def hold(self) -> bool:
        """Count a connection that waits to be refused, if it may; `let_go` follows then."""
        most = self._most_held
        if self._total and self._open.total() > self._total:
            most = min(most, SPARE_DESCRIPTORS // 2)
        may = self._held < most
        self._held += may
        return may

    def let_go(self) -> None:
        """Stop counting a connection that waited to be refused."""
        self._held -= 1

    def leave(self, address: str) -> None:
        """Stop counting a connection."""
        place = network_of(address)
        self._open[place] -= 1
        if not self._open[place]:
            del self._open[place]
        if self._addresses is not None:
            self._addresses.add(place, -1)
        self._publish()

    def _publish(self) -> None:
        if self._figures is not None:
            self._figures.count_connections(self._open.total())

    def wait(self, tenant: Hashable, connection: Waiting) -> None:
        """Count an answer that is not read, and close the connections that wait longest when it is one too many."""
        own = self._waiting.setdefault(tenant, {})
        own[connection] = connection.unread()
        self._unread += own[connection]
        most = self._most_unread
        if self._common is not None:
            most -= round(self._common.held_elsewhere(tenant))
        if sum(own.values()) > most:
            self._count_again(own)
        while len(own) > 1 and sum(own.values()) > most:
            self._drop_oldest(tenant)
        if self._common is not None:
            self._common.publish(tenant, sum(own.values()))
        if self._unread > self._most_of_all:
            for waiting in self._waiting.values():
                self._count_again(waiting)
        while self._unread > self._most_of_all:
            self._drop_oldest(max(self._waiting, key=lambda each: sum(self._waiting[each].values())))

    def resume(self, tenant: Hashable, connection: Waiting) -> None:
        """Stop counting an answer: it is read, or its connection has ended."""
        waiting = self._waiting.get(tenant, {})
        if connection in waiting:
            held = waiting.pop(connection)
            self._unread -= held
            self._memory.note(held)
            if self._common is not None:
                self._common.publish(tenant, sum(waiting.values()))
        if not waiting:
            self._waiting.pop(tenant, None)

    def _count_again(self, waiting: dict[Waiting, int]) -> None:
        """Count the rest of answers that are partly read."""
        for connection, before in waiting.items():
            waiting[connection] = connection.unread()
            self._unread += waiting[connection] - before

    def _drop_oldest(self, tenant: Hashable) -> None:
        oldest = next(iter(self._waiting[tenant]))
        self.resume(tenant, oldest)
        log.warning("unread answer dropped", extra={"tenant_id": None if tenant is None else str(tenant)})
        oldest.drop()


def network_of(address: str) -> str:
    """The address; of IPv6 the network of 64 bits, since one caller usually has all its addresses."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(IPv6Address(int(parsed) >> 64 << 64))
    return address


def raise_descriptor_limit() -> int:
    """Raise the process's soft limit of open files as far as it may, and return the number for connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    most = DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    return max(1, most - SPARE_DESCRIPTORS)
