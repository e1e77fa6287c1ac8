"""How much memory large and many files need: `python -m benchmarks.ingestion.memory [CASE …]`.

`knowledge ingest` reads each case into a new database, with vectors of the provider `mock`: the model `local` needs
150 MB more, whatever the files. The figures are the largest that were seen, ten times in a second.
"""

import argparse
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import textwrap
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from app.cli.output.text import print_table
from benchmarks.ingestion.files import FileMaker
from benchmarks.memory import postgres_memory

LINES = 40
"""On a page of the PDF, each of up to 90 characters."""

Files = Iterator[tuple[str, bytes]]


def make_pdf(maker: FileMaker) -> Files:
    """A PDF of 2,000 pages of text."""
    text = maker.make_markdown(2_000 * LINES * 88).decode("ascii", "replace").translate(str.maketrans("()\\#", "    "))
    lines = [line for paragraph in text.split("\n") for line in textwrap.wrap(paragraph, 90)]
    pages = [lines[start : start + LINES] for start in range(0, 2_000 * LINES, LINES)]
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for page in pages:
        drawn = f"BT /F1 10 Tf 14 TL 60 740 Td {' T* '.join(f'({line}) Tj' for line in page)} ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects) + 2} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    out, places = io.BytesIO(b"%PDF-1.4\n"), []
    out.seek(0, io.SEEK_END)
    for number, written in enumerate(objects, 1):
        places.append(out.tell())
        out.write(f"{number} 0 obj\n{written}\nendobj\n".encode())
    table = out.tell()
    entries = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    out.write(f"xref\n0 {size}\n0000000000 65535 f \n{entries}trailer\n<< /Size {size} /Root 1 0 R >>\n".encode())
    out.write(f"startxref\n{table}\n%%EOF\n".encode())
    yield "book.pdf", out.getvalue()


def make_zip(maker: FileMaker, pictures: int) -> Files:
    """A ZIP with 40 documents of 200 kB, and pictures of 2 MB."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number in range(40):
            archive.writestr(f"texts/{number}.md", maker.make_markdown(200_000))
        for number in range(pictures):
            archive.writestr(
                f"pictures/{number}.png", b"\x89PNG\r\n\x1a\n" + random.Random(number).randbytes(2_000_000)
            )
    yield "all.zip", out.getvalue()


def make_csv(maker: FileMaker, size: int) -> Files:
    """A CSV of this size, with four columns."""
    rows, made = ["number,place,depth,remark"], 0
    while made < size:
        for words in maker.make_markdown(100_000).decode().replace('"', "").replace(",", "").split("\n\n"):
            rows.append(f"{len(rows)},Quay {len(rows) % 97},{len(rows) % 13}.5,{words[:120]}")
            made += len(rows[-1]) + 1
    yield "rows.csv", "\n".join(rows).encode()


def make_small(maker: FileMaker) -> Files:
    """3,000 files of Markdown of 1 to 3 kB."""
    for number in range(3_000):
        yield f"{number}.md", maker.make_markdown(1_000 + number % 2_000)


CASES: dict[str, tuple[str, Callable[[FileMaker], Files]]] = {
    "pdf": ("a PDF of 2,000 pages", make_pdf),
    "zip": ("a ZIP of 300 MB", lambda maker: make_zip(maker, 146)),
    "zip-most": ("a ZIP of 248 MB", lambda maker: make_zip(maker, 120)),
    "csv": ("a CSV of 50 MB", lambda maker: make_csv(maker, 50_000_000)),
    "csv-most": ("a CSV of 12 MB", lambda maker: make_csv(maker, 12_000_000)),
    "small": ("3,000 small files", make_small),
}


@dataclass(slots=True)
class Peaks:
    """The most bytes that each had: the command, the processes that read files, and Postgres."""

    command: int = 0
    readers: int = 0
    postgres: int = 0

    def look(self, process: psutil.Process, data_dir: Path) -> None:
        """Compare with what the processes have now."""
        with suppress(psutil.Error):
            self.command = max(self.command, process.memory_info().rss)
            others = [each for each in process.children(recursive=True) if not each.name().startswith("postgres")]
            self.readers = max(self.readers, sum(each.memory_info().rss for each in others))
        self.postgres = max(self.postgres, postgres_memory(data_dir) or 0)


def measure(name: str, folder: Path) -> tuple[str, ...]:
    """Ingest the files of a case; returns its row of the table."""
    label, make = CASES[name]
    files, data_dir = folder / name, folder / f"data-{name}"
    files.mkdir()
    total = sum((files / file).write_bytes(data) for file, data in make(FileMaker()))
    environment = {
        **os.environ, "KB_DATA_DIR": str(data_dir), "EMBEDDING_PROVIDER": "mock", "KB_MAX_UPLOAD_BYTES": str(400 << 20),
    }  # fmt: skip
    program = [str(Path(sys.executable).with_name("knowledge"))]
    tenant = [*program, "tenant", "create", "memory"]
    subprocess.run(tenant, env=environment, check=True, capture_output=True)  # noqa: S603  # this program's own commands
    peaks, began = Peaks(), time.monotonic()
    with subprocess.Popen(  # noqa: S603  # as above
        [*program, "ingest", str(files), "--tenant", "memory", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as running:
        while running.poll() is None:
            peaks.look(psutil.Process(running.pid), data_dir)
            time.sleep(0.1)
        answer = json.loads(running.stdout.read()) if running.stdout else {}
    ended = "; ".join([f"{answer['indexed']:,} indexed", *(item["reason"] for item in answer["failed"])])
    seen = (peaks.command, peaks.readers, peaks.postgres)
    return (
        label,
        f"{total / 1e6:.0f} MB",
        *(f"{n / 1e6:,.0f} MB" for n in seen),
        f"{time.monotonic() - began:.0f} s",
        ended,
    )


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingestion.memory")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    names = parser.parse_args().cases or list(CASES)
    if unknown := set(names) - set(CASES):
        parser.error(f"unknown case: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(name, Path(folder)) for name in names]
    print_table(("files", "size", "command", "readers", "Postgres", "time", "result"), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
