"""The tenants of the benchmark's database and their sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

MEASURED = (10, 100, 1_000, 10_000, 100_000)
"""Numbers of entries of the tenants that are measured."""

TENANTS = 1_000
OTHER_ENTRIES = 140_000
"""Minimum number of entries of all other tenants together; their sizes follow Zipf's law."""

EPOCH_MS = 1_750_000_000_000
"""The first time in the identifiers."""


@dataclass(frozen=True, slots=True)
class Population:
    """One tenant of the database: its number, and the number of its entries."""

    number: int
    size: int

    @property
    def slug(self) -> str:
        """The tenant's name in the database."""
        return f"bench-{self.number:04}-{self.size}"

    @property
    def tenant_id(self) -> UUID:
        """The tenant's id, the same in every build, so that tenants always share partitions in the same way."""
        return _identifier(self.number, 0, 0)

    def entry_id(self, entry: int) -> UUID:
        """The id of an entry; like the service's ids, it grows with time."""
        return _identifier(entry + 1, self.number, entry + 1)


def entry_number(entry_id: UUID) -> int:
    """The number of the entry with this id."""
    return (entry_id.int & (1 << 62) - 1) - 1


def plan_tenants() -> Sequence[Population]:
    """All tenants, largest first: the measured ones, and others whose sizes follow a power law."""
    count = TENANTS - len(MEASURED)
    scale = OTHER_ENTRIES / sum(1 / rank for rank in range(1, count + 1))
    sizes = [*MEASURED, *(-int(-scale // rank) for rank in range(1, count + 1))]
    return [Population(number, size) for number, size in enumerate(sorted(sizes, reverse=True))]


def find_tenant(size: int) -> Population:
    """The measured tenant with this number of entries. Raises ValueError."""
    if size not in MEASURED:
        raise ValueError(f"no tenant of {size} entries is measured; there are {', '.join(map(str, MEASURED))}")
    return next(p for p in plan_tenants() if p.size == size)


def _identifier(milliseconds: int, high: int, low: int) -> UUID:
    """A UUID version 7 (RFC 9562) with given numbers in place of random ones."""
    return UUID(int=(EPOCH_MS + milliseconds) << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low)
