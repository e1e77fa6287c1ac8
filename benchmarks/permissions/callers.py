"""The callers that are compared, and what each of them may read."""

from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.db.principals import EVERYONE, Rights, acting_as, name_group
from benchmarks.corpus.population import Population
from benchmarks.permissions.tenants import WIDE, Scene, numbers_of

FEWEST = "1 % readable"
GROUPS: tuple[tuple[str, tuple[str, ...], int], ...] = (
    (FEWEST, ("0",), 1),
    ("10 % readable", ("tenth",), WIDE["tenth"]),
    ("50 % readable", ("half",), WIDE["half"]),
    ("50 %, by 50 groups", tuple(str(number) for number in range(WIDE["half"])), WIDE["half"]),
)
"""Callers of the tenant with permissions: their groups, and the number of departments whose entries they may read."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller of a tenant; `readable` are the numbers of the entries that it may read."""

    name: str
    tenant: Population
    groups: tuple[str, ...]
    readable: NDArray[np.int64]

    def acting(self, rights: Rights = Rights.READ) -> AbstractContextManager[None]:
        """In the block, the running task works for this caller, as the paths of readers do."""
        return acting_as((EVERYONE, *map(name_group, self.groups)), rights)


def list_callers(scene: Scene) -> list[Caller]:
    """The caller of the tenant without permissions, which the others are compared with; the others."""
    entries = scene.plain.size
    everything = np.arange(entries, dtype=np.int64)
    divided = [
        Caller(name, scene.divided, groups, numbers_of(departments, entries)) for name, groups, departments in GROUPS
    ]
    return [
        Caller("no permissions", scene.plain, (), everything),
        *divided,
        Caller(f"tenant of {scene.small.size:,} entries", scene.small, (), numbers_of(1, entries)),
    ]
