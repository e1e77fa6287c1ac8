"""What the speed benchmark found: one table, and the same as Markdown and JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.contender import Workload
from benchmarks.load import Timings

HEADINGS = (
    "entries", "callers", "contender", "embedding", "p50 ms", "p95 ms", "p99 ms", "per second", "memory",
    "p50 / floor", "rate / floor",
)  # fmt: skip


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


def make_rows(found: Sequence[Measurement]) -> list[tuple[str, ...]]:
    """The table under HEADINGS; ratios compare with the floor of the same size and number of callers."""
    floors = {(m.size, m.callers): m.timings for m in found if m.is_floor}
    rows: list[tuple[str, ...]] = []
    for m in sorted(found, key=lambda m: (m.size, m.callers)):
        t, floor = m.timings, floors.get((m.size, m.callers))
        rows.append((
            f"{m.size:,}",
            str(m.callers),
            m.contender,
            m.workload,
            *(f"{value:.1f}" for value in (t.p50, t.p95, t.p99)),
            f"{t.throughput:.0f}",
            f"{m.memory / 2**20:.0f} MB" if m.memory else "",
            f"{t.p50 / floor.p50:.2f}" if floor else "",
            f"{t.throughput / floor.throughput:.2f}" if floor else "",
        ))  # fmt: skip
    return rows


def print_table(found: Sequence[Measurement]) -> None:
    """Print it, at its full width where the output is no terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    table = Table()
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if number in (2, 3) else "right")
    before: tuple[str, ...] | None = None
    for row in make_rows(found):
        if before and row[:2] != before[:2]:
            table.add_section()
        table.add_row(*row)
        before = row
    console.print(table)


def write_results(found: Sequence[Measurement], folder: Path) -> tuple[Path, Path]:
    """Write `speed.md` and `speed.json`."""
    made_at = datetime.now(UTC)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    markdown, json = folder / "speed.md", folder / "speed.json"
    lines = [
        "# Speed of a hybrid search",
        "",
        f"{made_at:%Y-%m-%d %H:%M} UTC, {machine}; load and service share the machine. *cached*: the embedding of "
        "the query is known; *distinct*: each query is embedded.",
        "",
        f"| {' | '.join(HEADINGS)} |",
        f"|{'---|' * len(HEADINGS)}",
        *(f"| {' | '.join(row)} |" for row in make_rows(found)),
    ]
    markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = {
        "made_at": made_at.isoformat(timespec="seconds"),
        "machine": machine,
        "measurements": [asdict(m) for m in found],
    }
    json.write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return markdown, json
