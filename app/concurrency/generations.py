"""Notice changes of tenants, so that caches are refreshed, and record when each tenant was last written to."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Protocol
from uuid import UUID

REMEMBERED = 10_000
"""Tenants whose changes are kept separately; the change of one more begins a new generation of all."""


class Generations:
    """Counts the changes of tenants in this process; each change begins the tenant's next generation."""

    def __init__(self) -> None:
        self._changes = 0
        self._common = 0
        self._own: dict[Hashable, int] = {}

    def current(self, tenant: Hashable) -> list[float]:
        """The generation of the tenant; any change makes it another one."""
        return [self._own.get(tenant, self._common)]

    def advance(self, tenant: Hashable) -> None:
        """Begin a new generation."""
        self._changes += 1
        if len(self._own) >= REMEMBERED:
            self._own.clear()
            self._common = self._changes
        self._own[tenant] = self._changes


CELLS = 4_096
"""Tenants with the same remainder share a cell: a write to one counts for all of them, which is never wrong."""


class Cells(Protocol):
    """Numbers by place: a list, or memory that several processes share."""

    def __getitem__(self, place: int, /) -> float: ...

    def __setitem__(self, place: int, value: float, /) -> None: ...


class LastWrites:
    """Times by the clock `time.monotonic`, which all processes of a machine share."""

    def __init__(self, cells: Cells | None = None) -> None:
        self._cells = [0.0] * CELLS if cells is None else cells

    def note(self, tenant_id: UUID) -> None:
        """The tenant was written to just now."""
        self._cells[tenant_id.int % CELLS] = time.monotonic()

    def at(self, tenant_id: UUID) -> float:
        """When the tenant was last written to, or later; 0 if never."""
        return self._cells[tenant_id.int % CELLS]
