"""The results of the speed benchmark."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.contender import Workload
from benchmarks.load import Timings
from benchmarks.recall import Recall


@dataclass(frozen=True, slots=True)
class Measurement:
    """One contender under one load; `memory` in bytes."""

    contender: str
    is_floor: bool
    workload: Workload
    size: int
    callers: int
    timings: Timings
    memory: int | None
    is_peer: bool = False


@dataclass(slots=True)
class Report:
    """All measurements of one run.

    Attributes:
        postgres_memory: bytes that Postgres held after the race in the tenant of each size.
        absent: why a contender did not take part, by the name of its module.
        entries: the number of entries in a peer's own store.
    """

    measurements: list[Measurement] = field(default_factory=list)
    recalls: list[Recall] = field(default_factory=list)
    postgres_memory: dict[int, int | None] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    entries: dict[str, int] = field(default_factory=dict)

    @property
    def peers(self) -> list[str]:
        """Names of the peers that were measured."""
        return list(dict.fromkeys(m.contender for m in self.measurements if m.is_peer))

    def recall_of(self, contender: str, size: int, *, rare: bool = False) -> Recall | None:
        """The recall of a contender in the tenant of this size, if it was measured."""
        matching = (r for r in self.recalls if (r.contender, r.size, r.rare) == (contender, size, rare))
        return next(matching, None)

    def service_missed(self) -> int:
        """The number of hits that exist but that the service did not return."""
        return sum(r.missing for r in self.recalls if r.contender not in self.peers)
