"""The service and its peers side by side, and the benchmark's targets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.contender import FLOOR, SERVICE
from benchmarks.report.results import Report

ALONE, BUSY = 1, 8
"""Callers at once."""

LATENCY = {1_000: 8.0, 10_000: 10.0, 100_000: 20.0}
"""The p50 with one caller that the service must not exceed, in milliseconds."""

RIVALS = ("LanceDB", "LangChain")
RATE = 1.5
"""How many times a rival's answers per second the service must give."""

OVER_SQL = 1.5
OF_SQL = 0.7
"""The share of the bare SQL's answers per second that the service must give to eight callers."""

GROWTH = 2.5
RECALL, INDEXED = 0.99, 10_000
KEYWORD_RECALL = 0.95
TARGET_HEADINGS = ("target", "bound", "measured", "met")
WORDS_HEADINGS = ("entries", "share of the ten best by exact BM25", "keyword leg p50 ms", "p95 ms")


@dataclass(frozen=True, slots=True)
class Target:
    """A figure and its bound; with `most`, the figure must not exceed it, otherwise it must reach it."""

    name: str
    bound: float
    measured: float
    most: bool

    @property
    def met(self) -> bool:
        """Whether the figure is within the bound."""
        return self.measured <= self.bound if self.most else self.measured >= self.bound


def make_comparison(report: Report) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings and rows: for each contender and size the p50 with one caller, the answers per second with eight,
    and the recall.
    """
    sizes = sorted({m.size for m in report.measurements})
    names = list(dict.fromkeys(m.contender for m in report.measurements if m.workload == "cached"))
    order = sorted(
        names, key=lambda name: (not name.startswith(FLOOR), not name.startswith(SERVICE), name in report.peers)
    )
    rows = [(name, *(_cell(report, name, size) for size in sizes)) for name in order]
    return ("contender", *(f"{size:,} entries" for size in sizes)), rows


def _cell(report: Report, name: str, size: int) -> str:
    alone, busy = report.measured(name, size, ALONE), report.measured(name, size, BUSY)
    recall = report.recall_of(name, size)
    figures = "; ".join((f"{alone.p50:.1f}" if alone else "–", f"{busy.throughput:.0f}" if busy else "–"))
    return f"{figures} ({recall.recall:.3f})" if recall else figures


def list_targets(report: Report) -> list[Target]:
    """Every target whose figures were measured."""
    return [*_latency(report), *_rates(report), *_recalls(report)]


def _latency(report: Report) -> Iterator[Target]:
    at = {size: t for size in LATENCY if (t := report.measured(SERVICE, size, ALONE))}
    for size, timings in at.items():
        yield Target(f"p50 over HTTP, {size:,} entries, ms", LATENCY[size], timings.p50, most=True)
    for size, timings in at.items():
        if floor := report.measured(FLOOR, size, ALONE):
            yield Target(f"p50 over HTTP / bare SQL, {size:,}", OVER_SQL, timings.p50 / floor.p50, most=True)
    small, large = min(LATENCY), max(LATENCY)
    if small in at and large in at:
        growth = at[large].p50 / at[small].p50
        yield Target(f"p50 over HTTP, {large:,} / {small:,} entries", GROWTH, growth, most=True)


def _rates(report: Report) -> Iterator[Target]:
    for size in LATENCY:
        own, floor = report.measured(SERVICE, size, BUSY), report.measured(FLOOR, size, BUSY)
        if own and floor:
            ratio = own.throughput / floor.throughput
            yield Target(f"answers per second / bare SQL, {size:,}", OF_SQL, ratio, most=False)
    for rival in RIVALS:
        for size in LATENCY:
            own, other = report.measured(SERVICE, size, BUSY), report.measured(rival, size, BUSY)
            if own and other:
                ratio = own.throughput / other.throughput
                yield Target(f"answers per second / {rival}, {size:,}", RATE, ratio, most=False)


def _recalls(report: Report) -> Iterator[Target]:
    for size in LATENCY:
        if size >= INDEXED and (recall := report.recall_of(SERVICE, size)):
            yield Target(f"recall@10, {size:,} entries", RECALL, recall.recall, most=False)
    for words in report.words:
        if words.size == max(LATENCY):
            yield Target(f"exact BM25's ten best, {words.size:,} entries", KEYWORD_RECALL, words.recall, most=False)


def make_target_rows(report: Report) -> list[tuple[str, ...]]:
    """The rows of the table of targets."""
    return [
        (t.name, f"{'≤' if t.most else '≥'} {t.bound:g}", f"{t.measured:.3g}", "yes" if t.met else "no")
        for t in list_targets(report)
    ]


def make_words_rows(report: Report) -> list[tuple[str, ...]]:
    """The rows of the table of the keyword leg."""
    return [(f"{w.size:,}", f"{w.recall:.3f}", f"{w.p50:.1f}", f"{w.p95:.1f}") for w in report.words]


def list_tables(report: Report) -> Sequence[tuple[str, Sequence[str], Sequence[tuple[str, ...]]]]:
    """Title, headings and rows of each table of this module that has rows."""
    tables = (
        ("Side by side", *make_comparison(report)),
        ("Targets", TARGET_HEADINGS, make_target_rows(report)),
        ("Keyword leg", WORDS_HEADINGS, make_words_rows(report)),
    )
    return [table for table in tables if table[2]]
