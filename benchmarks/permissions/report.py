"""The figures as tables, and the bounds that they must keep."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.permissions.callers import FEWEST
from benchmarks.permissions.completeness import Completeness
from benchmarks.permissions.timing import Paired
from benchmarks.report.tables import make_machine_note, print_table, write_table

LEAST_RECALL = 0.99
MOST_RATIO = 1.2
"""The p50 of a search for the caller who may read least, over that in a tenant without permissions."""

FOUND = (
    "caller", "recall@10", "hits that exist but did not come", "hidden hits", "exact", "wrongly exact",
    "words recall@10", "words complete", "wrongly complete",
)  # fmt: skip
TIMES = ("caller", "p50 ms", "p95 ms", "p50 / first", "median of the pairs")
TEXTS = frozenset({"caller"})


@dataclass(slots=True)
class Figures:
    """All figures of a run; the first of each list is what the others are compared with."""

    entries: int
    completeness: dict[str, Completeness] = field(default_factory=dict)
    in_process: list[Paired] = field(default_factory=list)
    over_http: list[Paired] = field(default_factory=list)
    roles: list[Paired] = field(default_factory=list)

    def tables(self) -> list[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
        """A title, headings and rows of each table."""
        found: list[tuple[str, ...]] = [
            (
                name,
                f"{c.recall:.4f}",
                str(c.missing),
                str(c.hidden),
                f"{c.exact} of {c.questions}",
                str(c.wrongly_exact),
                f"{c.word_recall:.4f}",
                f"{c.complete} of {c.questions}",
                str(c.wrongly_complete),
            )
            for name, c in self.completeness.items()
        ]
        times = (("in process", self.in_process), ("over HTTP", self.over_http), ("the role", self.roles))
        return [
            (f"What callers find, {self.entries:,} entries", FOUND, found),
            *((f"Time {title}", TIMES, [_row(one) for one in some]) for title, some in times),
        ]

    def faults(self) -> list[str]:
        """Sentences on bounds that are not kept."""
        faults = []
        for name, c in self.completeness.items():
            if c.recall < LEAST_RECALL:
                faults.append(f"{name}: recall@10 is {c.recall:.4f}")
            if c.missing or c.hidden or c.wrongly_exact or c.wrongly_complete:
                faults.append(f"{name}: hits are missing, hidden, or not what they are said to be: {c}")
        for some in (self.in_process, self.over_http):
            faults += [
                f"{t.name}: p50 is {t.of_p50:.2f} times the first"
                for t in some
                if t.name == FEWEST and t.of_p50 > MOST_RATIO
            ]
        return faults


def _row(times: Paired) -> tuple[str, ...]:
    return (times.name, f"{times.p50:.1f}", f"{times.p95:.1f}", f"{times.of_p50:.2f}", f"{times.of_pairs:.2f}")


def print_figures(figures: Figures) -> None:
    """Print all tables."""
    for title, headings, rows in figures.tables():
        print(title)
        print_table(headings, rows, TEXTS)


def write_figures(figures: Figures, folder: Path) -> Path:
    """Write `permissions.md`."""
    lines = ["# Permissions", "", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC. {make_machine_note()}"]
    for title, headings, rows in figures.tables():
        lines += ["", f"## {title}", "", *write_table(headings, rows, TEXTS)]
    path = folder / "permissions.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
