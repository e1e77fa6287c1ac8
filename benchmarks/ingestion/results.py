"""The results of the ingestion benchmark, as tables for the terminal, Markdown and JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import orjson

from benchmarks.ingestion.growth import Growth
from benchmarks.report.tables import make_machine_note, print_table, write_table

SPEED_HEADINGS = (
    "model", "files", "chunks", "characters a chunk", "jobs at a time", "chunks a second", "ceiling", "share",
    "bare onnxruntime",
    "LangChain add_documents", "rate / LangChain",
)  # fmt: skip
MEMORY_HEADINGS = (
    "MB ingested",
    "files",
    "seconds",
    "chunks",
    "peak resident MB, by tenth of the bytes",
    "parsers, MB",
)
TEXT_COLUMNS = frozenset({"model", "ceiling", MEMORY_HEADINGS[4]})


@dataclass(frozen=True, slots=True)
class Throughput:
    """One pipeline and its comparisons; rates in chunks a second.

    Attributes:
        ceiling: the model alone or the SQL alone, measured before and after the pipeline.
        bare: the model on tokenized texts, a plain thread for each core; None for the mock model.
        peer: None if LangChain is not installed.
    """

    model: str
    files: int
    chunks: int
    characters: int
    concurrency: int
    rate: float
    ceiling_name: str
    ceiling: tuple[float, float]
    bare: float | None
    peer: float | None

    @property
    def share(self) -> float:
        """The share of the ceiling's mean rate."""
        return self.rate / (sum(self.ceiling) / 2)


@dataclass(frozen=True, slots=True)
class Passage:
    """A set of files that was ingested, and the memory used during it."""

    taken: int
    files: int
    seconds: float
    chunks: int
    growth: Growth


@dataclass(slots=True)
class IngestionReport:
    """All measurements of one run; `absent` gives the reason why LangChain did not take part."""

    throughputs: list[Throughput] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    absent: str | None = None

    def speed_rows(self) -> list[tuple[str, ...]]:
        """The table of rates."""
        return [
            (
                t.model,
                str(t.files),
                f"{t.chunks:,}",
                str(t.characters),
                str(t.concurrency),
                f"{t.rate:,.0f}",
                f"{t.ceiling_name} {t.ceiling[0]:,.0f} and {t.ceiling[1]:,.0f}",
                f"{t.share:.2f}",
                f"{t.bare:,.0f}" if t.bare else "",
                f"{t.peer:,.0f}" if t.peer else "",
                f"{t.rate / t.peer:.1f}" if t.peer else "",
            )
            for t in self.throughputs
        ]

    def memory_rows(self) -> list[tuple[str, ...]]:
        """The table of memory."""
        return [
            (
                f"{p.taken / 1e6:,.0f}",
                str(p.files),
                f"{p.seconds:.0f}",
                f"{p.chunks:,}",
                " ".join(f"{held / 2**20:.0f}" for held in p.growth.by_tenth()),
                f"{p.growth.parsers / 2**20:.0f}",
            )
            for p in self.passages
        ]

    def notes(self) -> list[str]:
        """What a reader needs to interpret the tables."""
        notes = [
            make_machine_note(),
            "Rates are from accepted files to searchable chunks. *model alone*: the same texts embedded and nothing "
            "else; *SQL alone*: the same rows inserted by the same statements, a transaction for each file, on one "
            "connection, into the same tables with all indexes and triggers. Each was measured before and after the "
            "pipeline. HNSW is deferred, and LangChain has no vector index either.",
            "*bare onnxruntime*: the default model on texts that are tokenized already, a plain thread for each core.",
            "A file costs the start of a confined parser, 0.1 s, before its first chunk: small files are slower.",
            "Memory: an eighth of the bytes is Markdown, the rest Word files with a picture; the model is the mock.",
        ]
        return notes + ([f"LangChain did not take part: {self.absent}"] if self.absent else [])


def print_ingestion(report: IngestionReport) -> None:
    """Print the tables and notes."""
    for headings, rows in _tables(report):
        print_table(headings, rows, TEXT_COLUMNS)
    for note in report.notes():
        print(note)


def write_ingestion(report: IngestionReport, folder: Path) -> tuple[Path, Path]:
    """Write `ingestion.md` and `ingestion.json`."""
    made_at = datetime.now(UTC)
    markdown, json = folder / "ingestion.md", folder / "ingestion.json"
    lines = ["# Speed of ingestion", "", f"{made_at:%Y-%m-%d %H:%M} UTC.", ""]
    lines += [f"- {note}" for note in report.notes()]
    for headings, rows in _tables(report):
        lines += ["", *write_table(headings, rows, TEXT_COLUMNS)]
    markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")
    content = {
        "made_at": made_at.isoformat(timespec="seconds"),
        "notes": report.notes(),
        "throughputs": [asdict(t) for t in report.throughputs],
        "passages": [asdict(p) for p in report.passages],
    }
    json.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return markdown, json


def _tables(report: IngestionReport) -> list[tuple[Sequence[str], list[tuple[str, ...]]]]:
    tables = [(SPEED_HEADINGS, report.speed_rows()), (MEMORY_HEADINGS, report.memory_rows())]
    return [(headings, rows) for headings, rows in tables if rows]
