"""What all connections of the process hold together: their number by address, and unread answers by tenant."""

from __future__ import annotations

import logging
import resource
import time
from collections import Counter
from collections.abc import Hashable
from ipaddress import IPv6Address, ip_address
from typing import Protocol

log = logging.getLogger("app.api.connections")

DESCRIPTORS = 65_536
"""Soft limit of open files that the service sets for itself, or the hard limit if that is lower."""

SPARE_DESCRIPTORS = 128
"""Descriptors that connections leave for the database, files and the parser."""

UNREAD_BYTES = 32 * 1024 * 1024
"""Answers of one tenant that wait to be read; above it, the connection that waits longest is closed."""

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

    def __init__(self, *, per_address: int = 0, total: int = 0, unread: int = UNREAD_BYTES) -> None:
        """0 means unlimited."""
        self._per_address = per_address
        self._total = total
        self._most_unread = unread
        self._open: Counter[str] = Counter()
        self._waiting: dict[Hashable, list[Waiting]] = {}
        self._refused = 0
        self._reported = -QUIET_SECONDS

    def enter(self, address: str) -> bool:
        """Count a new connection, and return whether it is within the limits. `leave` follows in any case."""
        place = network_of(address)
        self._open[place] += 1
        within = not self._per_address or self._open[place] <= self._per_address
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
                    "connections": self._open[place],
                    "limit": self._total if within else self._per_address,
                },
            )
            self._refused = 0
        return False

    def leave(self, address: str) -> None:
        """Stop counting a connection."""
        place = network_of(address)
        self._open[place] -= 1
        if not self._open[place]:
            del self._open[place]

    def wait(self, tenant: Hashable, connection: Waiting) -> None:
        """Count an answer that is not read, and close the connections that wait longest when it is one too many."""
        waiting = self._waiting.setdefault(tenant, [])
        waiting.append(connection)
        unread = {each: each.unread() for each in waiting}
        while len(waiting) > 1 and sum(unread.values()) > self._most_unread:
            oldest = waiting.pop(0)
            del unread[oldest]
            log.warning("unread answer dropped", extra={"tenant_id": None if tenant is None else str(tenant)})
            oldest.drop()

    def resume(self, tenant: Hashable, connection: Waiting) -> None:
        """Stop counting an answer: it is read, or its connection has ended."""
        waiting = self._waiting.get(tenant, [])
        if connection in waiting:
            waiting.remove(connection)
        if not waiting:
            self._waiting.pop(tenant, None)


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
