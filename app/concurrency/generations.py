"""Changes of tenants, which those that keep what they have read of a tenant notice at their next look."""

from __future__ import annotations

from collections.abc import Hashable

REMEMBERED = 10_000
"""Tenants whose changes are told apart; the change of one more begins a new generation of all."""


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
