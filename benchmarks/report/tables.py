"""The speed benchmark's report: tables for the terminal, and the same as Markdown and JSON."""

import os
import platform
from collections.abc import Sequence, Set
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.report.comparison import list_tables, list_targets, make_comparison
from benchmarks.report.results import Measurement, Report

HEADINGS = (
    "entries", "callers", "contender", "embedding", "p50 ms", "p95 ms", "p99 ms", "per second", "recall@10",
    "memory", "p50 / floor", "rate / floor",
)  # fmt: skip
COMPARISON = "comparison.md"
"""The file with the table of the service and its peers, for the page of figures."""

RECALL_HEADINGS = ("entries", "contender", "unfiltered", "1 % filter", "missing hits")
TEXT_COLUMNS = frozenset({"contender", "embedding", "target", "bound", "met"})


def make_rows(report: Report) -> list[tuple[str, ...]]:
    """The rows of the table; ratios compare with the floor at the same size and number of callers."""
    floors = {(m.size, m.callers): m.timings for m in report.measurements if m.is_floor}
    rows: list[tuple[str, ...]] = []
    for m in sorted(report.measurements, key=lambda m: (m.size, m.callers)):
        t, floor = m.timings, floors.get((m.size, m.callers))
        recall = report.recall_of(m.contender, m.size)
        rows.append((
            f"{m.size:,}",
            str(m.callers),
            m.contender,
            m.workload,
            *(f"{value:.1f}" for value in (t.p50, t.p95, t.p99)),
            f"{t.throughput:.0f}",
            f"{recall.recall:.3f}" if recall else "",
            _memory(m),
            f"{t.p50 / floor.p50:.2f}" if floor else "",
            f"{t.throughput / floor.throughput:.2f}" if floor else "",
        ))  # fmt: skip
    return rows


def make_recall_rows(report: Report) -> list[tuple[str, ...]]:
    """The table of recall, by size of tenant."""
    rows: list[tuple[str, ...]] = []
    for open_search in report.recalls:
        if open_search.rare:
            continue
        filtered = report.recall_of(open_search.contender, open_search.size, rare=True)
        missing = open_search.missing + (filtered.missing if filtered else 0)
        rows.append((
            f"{open_search.size:,}",
            open_search.contender,
            f"{open_search.recall:.4f}",
            f"{filtered.recall:.4f}" if filtered else "",
            str(missing),
        ))  # fmt: skip
    return rows


def make_machine_note() -> str:
    """The machine and the versions of the measurement."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return f"{machine}; load and service share the machine."


def note_processor(report: Report) -> str:
    """How fast the processor was during the run; empty if it was not measured."""
    if not report.processor:
        return ""
    least, most = min(report.processor), max(report.processor)
    return f"A fixed loop of Python took {least:.1f} to {most:.1f} ms in the course of this run."


def make_notes(report: Report) -> list[str]:
    """What a reader needs to interpret the tables."""
    held = ", ".join(f"{b / 2**20:.0f} MB at {s:,}" for s, b in report.postgres_memory.items() if b)
    notes = [
        f"{make_machine_note()} *cached*: the embedding of the query is known; *distinct*: each query is embedded.",
        note_processor(report),
        report.texts,
        "The database is as the service leaves it: filled with the service's statements, then left to upkeep and "
        "autovacuum. Rows with `vacuum analyze` repeat the measurement on a copy of it that was prepared by hand.",
        "The service over HTTP is `knowledge serve` with its defaults for an external Postgres, in processes of its "
        "own. The floor, the service in process and the peers run in the process that generates the load and share its "
        "interpreter, so nothing is transferred; *memory* of a peer is the growth of that process when the peer was "
        "opened and first searched.",
        "recall@10: the share of the ten entries with the greatest cosine that a semantic-only search "
        "returns; *missing hits*: hits that exist, up to ten a query, but did not come back.",
    ]
    if costs := [m.generator for m in report.measurements if m.generator is not None]:
        notes.append(
            f"The generator of the load took {min(costs):.2f} to {max(costs):.2f} ms of processor time for a request "
            "over HTTP, reading of the JSON included."
        )
    notes += [f"{name}: {setup}." for name, setup in report.setups.items() if setup]
    if report.peers:
        notes.append(
            "Each peer separates tenants as its documentation recommends. The service takes at least 30 candidates "
            "from each leg. Read a peer's speed with its recall: a filtered scan of an HNSW graph can be fast and find "
            "few entries. Systems for keywords or vectors only do half of the work."
        )
    if held:
        notes.append(f"Postgres itself held {held} entries (proportional set size of all its processes).")
    if report.entries:
        stores = ", ".join(f"{name} {count:,}" for name, count in report.entries.items())
        notes.append(f"Entries in the peers' own stores, all tenants together: {stores}.")
    notes += [f"{name} did not take part: {reason}" for name, reason in report.absent.items()]
    return [note for note in notes if note]


def print_report(report: Report) -> None:
    """Print both tables and the notes, at full width if the output is not a terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    for title, headings, rows in list_tables(report):
        console.print(title)
        console.print(_terminal_table(headings, rows, 0, frozenset(headings[:1])))
    console.print(_terminal_table(HEADINGS, make_rows(report), 2))
    if report.recalls:
        console.print(_terminal_table(RECALL_HEADINGS, make_recall_rows(report), 1))
    for note in make_notes(report):
        console.print(note, highlight=False)


def write_report(report: Report, folder: Path) -> tuple[Path, Path, Path]:
    """Write `speed.md`, `speed.json` and COMPARISON."""
    made_at = datetime.now(UTC)
    markdown, json, comparison = folder / "speed.md", folder / "speed.json", folder / COMPARISON
    lines = ["# Speed of a hybrid search", "", f"{made_at:%Y-%m-%d %H:%M} UTC.", ""]
    lines += [f"- {note}" for note in make_notes(report)]
    for title, headings, rows in list_tables(report):
        lines += ["", f"## {title}", "", *write_table(headings, rows, frozenset(headings[:1]))]
    lines += ["", "## All measurements", "", *write_table(HEADINGS, make_rows(report))]
    if report.recalls:
        lines += ["", "## recall@10 by tenant size", ""]
        lines += write_table(RECALL_HEADINGS, make_recall_rows(report))
    markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")
    content = {
        "made_at": made_at.isoformat(timespec="seconds"),
        "notes": make_notes(report),
        "measurements": [asdict(m) for m in report.measurements],
        "recall": [asdict(r) for r in report.recalls],
        "words": [asdict(w) for w in report.words],
        "targets": [{**asdict(t), "met": t.met} for t in list_targets(report)],
        "postgres_memory": {str(size): held for size, held in report.postgres_memory.items()},
    }
    json.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    headings, rows = make_comparison(report)
    lines = [*write_table(headings, rows), *(("", note) if (note := note_processor(report)) else ())]
    comparison.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return markdown, json, comparison


def _memory(m: Measurement) -> str:
    return f"{'+' if m.is_peer else ''}{m.memory / 2**20:.0f} MB" if m.memory else ""


def _terminal_table(
    headings: Sequence[str], rows: Sequence[tuple[str, ...]], group: int, text_columns: Set[str] = TEXT_COLUMNS
) -> Table:
    """`group`: the number of first columns that identify a group of rows."""
    table = Table()
    for heading in headings:
        table.add_column(heading, justify="left" if heading in text_columns else "right")
    before: tuple[str, ...] | None = None
    for row in rows:
        if before and row[:group] != before[:group]:
            table.add_section()
        table.add_row(*row)
        before = row
    return table


def print_table(headings: Sequence[str], rows: Sequence[tuple[str, ...]], text_columns: Set[str]) -> None:
    """Print a table, at full width if the output is not a terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(_terminal_table(headings, rows, 1, text_columns))


def write_table(
    headings: Sequence[str], rows: Sequence[tuple[str, ...]], text_columns: Set[str] = TEXT_COLUMNS
) -> list[str]:
    """The lines of a table in Markdown."""
    rule = "|".join("---" if heading in text_columns else "---:" for heading in headings)
    return [f"| {' | '.join(headings)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)]
