"""Which tenants the benchmark's database has, and how large each is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

MEASURED = (10, 100, 1_000, 10_000, 100_000)
"""Entries of the tenants that searches are measured in."""

TENANTS = 1_000
OTHER_ENTRIES = 140_000
"""Entries of all the other tenants together, at least; their sizes follow Zipf's law."""

EPOCH_MS = 1_750_000_000_000
"""Where the time in the identifiers begins."""


@dataclass(frozen=True, slots=True)
class Population:
    """One tenant of the database: its number, and how many entries it has."""

    number: int
    size: int

    @property
    def slug(self) -> str:
        """The tenant's name in the database."""
        return f"bench-{self.number:04}-{self.size}"

    @property
    def tenant_id(self) -> UUID:
        """The same in every build, so that the tenants share partitions in the same way."""
        return _identifier(self.number, 0, 0)

    def entry_id(self, entry: int) -> UUID:
        """The id of an entry: like those that the service makes, it grows with time."""
        return _identifier(entry + 1, self.number, entry + 1)


def entry_number(entry_id: UUID) -> int:
    """The number of the entry with this id."""
    return (entry_id.int & (1 << 62) - 1) - 1


def plan_tenants() -> Sequence[Population]:
    """All tenants, largest first: those to be measured, and others whose sizes follow a power law."""
    count = TENANTS - len(MEASURED)
    scale = OTHER_ENTRIES / sum(1 / rank for rank in range(1, count + 1))
    sizes = [*MEASURED, *(-int(-scale // rank) for rank in range(1, count + 1))]
    return [Population(number, size) for number, size in enumerate(sorted(sizes, reverse=True))]


def find_tenant(size: int) -> Population:
    """The tenant to measure that has so many entries. Raises ValueError."""
    if size not in MEASURED:
        raise ValueError(
            f"no tenant of {size} entries is measured; there are {', '.join(map(str, MEASURED))}"
        )
    return next(p for p in plan_tenants() if p.size == size)


def _identifier(milliseconds: int, high: int, low: int) -> UUID:
    """A UUID version 7 (RFC 9562) with given numbers where chance would be."""
    return UUID(int=(EPOCH_MS + milliseconds) << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low)
