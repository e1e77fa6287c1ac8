"""The results of the speed benchmark."""

from dataclasses import dataclass, field

from benchmarks.contender import Workload
from benchmarks.load import Timings
from benchmarks.measures.recall import Recall
from benchmarks.measures.words import WordsResult


@dataclass(frozen=True, slots=True)
class Measurement:
    """One contender under one load; `memory` in bytes.

    `generator`: for a contender in a process of its own, the milliseconds of processor time that the generator of the
    load took for each request.
    """

    contender: str
    is_floor: bool
    workload: Workload
    size: int
    callers: int
    timings: Timings
    memory: int | None
    is_peer: bool = False
    generator: float | None = None


@dataclass(slots=True)
class Report:
    """All measurements of one run.

    Attributes:
        postgres_memory: bytes that Postgres held after the race in the tenant of each size.
        absent: why a contender did not take part, by the name of its module.
        entries: the number of entries in a peer's own store.
        setups: how each contender is set up, by its name.
        words: the keyword leg against exact BM25.
        texts: what the entries consist of.
        processor: milliseconds of a fixed loop, measured between the races.
    """

    measurements: list[Measurement] = field(default_factory=list)
    recalls: list[Recall] = field(default_factory=list)
    postgres_memory: dict[int, int | None] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    entries: dict[str, int] = field(default_factory=dict)
    setups: dict[str, str] = field(default_factory=dict)
    words: list[WordsResult] = field(default_factory=list)
    texts: str = ""
    processor: list[float] = field(default_factory=list)

    @property
    def peers(self) -> list[str]:
        """Names of the peers that were measured."""
        return list(dict.fromkeys(m.contender for m in self.measurements if m.is_peer))

    def measured(self, contender: str, size: int, callers: int) -> Timings | None:
        """The timings of a contender whose name begins so, with cached embeddings."""
        matching = (
            m.timings
            for m in self.measurements
            if m.contender.startswith(contender) and (m.size, m.callers, m.workload) == (size, callers, "cached")
        )
        return next(matching, None)

    def recall_of(self, contender: str, size: int, *, rare: bool = False) -> Recall | None:
        """The recall of a contender in the tenant of this size, if it was measured."""
        matching = (r for r in self.recalls if r.contender.startswith(contender) and (r.size, r.rare) == (size, rare))
        return next(matching, None)

    def service_missed(self) -> int:
        """The number of hits that exist but that the service did not return."""
        return sum(r.missing for r in self.recalls if r.contender not in self.peers)
