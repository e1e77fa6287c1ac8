"""When each tenant was last written to, for reads that must not miss it."""

from __future__ import annotations

import time
from typing import Protocol
from uuid import UUID

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
