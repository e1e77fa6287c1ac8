"""Whether questions find their page in real documents: `python -m benchmarks.documents`, or `make eval-documents`.

The files come from Debian packages, by `apt-get download`, and are kept in `build/documents`. Files that are not there
are not measured, and the program says which. The figures are in `.bench/documents.json`; `--compare` reads such a file
of another version.
"""

import argparse
import sys
from pathlib import Path

from app.cli.execution import run_async
from app.cli.output.progress import show_progress
from app.cli.output.text import print_table
from app.composition.services import open_services
from app.errors import KnowledgeError
from app.evaluation.report import with_cache
from app.settings import EmbeddingSettings
from benchmarks.documents.measurement import Figures, measure_collection
from benchmarks.documents.questions import COLLECTIONS, load_files
from benchmarks.documents.report import COMPARED, HEADINGS, make_comparison, make_rows, read_scores, write_figures
from benchmarks.place import KEPT, VECTORS, bench_settings


def main() -> int:
    """Measure, print the tables, and write the figures; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.documents", description=__doc__.split(":")[0])
    parser.add_argument("collections", nargs="*", metavar="COLLECTION", help=f"of {', '.join(COLLECTIONS)}")
    parser.add_argument("--output", type=Path, default=KEPT / "documents.json", help="the file of the figures")
    parser.add_argument("--compare", type=Path, metavar="JSON", help="the figures of another version")
    parser.add_argument("--misses", action="store_true", help="list the questions without a right hit among three")
    arguments = parser.parse_args()
    names = arguments.collections or list(COLLECTIONS)
    if unknown := set(names) - set(COLLECTIONS):
        parser.error(f"unknown collection: {', '.join(sorted(unknown))}")
    try:
        measured = run_async(_measure(names))
    except KnowledgeError as error:
        print(error, file=sys.stderr)
        return 1
    before = read_scores(arguments.compare) if arguments.compare else {}
    for name, figures in measured.items():
        _print_figures(figures, arguments.misses)
        if name in before:
            print_table(COMPARED, make_comparison(name, before[name], figures.scores), right=COMPARED[3:])
    write_figures(arguments.output, measured)
    print(arguments.output)
    return 0


async def _measure(names: list[str]) -> dict[str, Figures]:
    settings = bench_settings(KEPT / "documents-data")
    # A busy machine must not turn into searches by keyword.
    settings = settings.model_copy(update={"embedding": EmbeddingSettings(query_timeout=60)})
    async with open_services(settings) as plain, with_cache(plain, VECTORS) as services:
        return {name: await measure_collection(services, name, load_files(name), show_progress) for name in names}


def _print_figures(figures: Figures, misses: bool) -> None:
    for name, reason in figures.missing.items():
        print(f"{name} is not measured: {reason}")
    if figures.scores:
        print_table(HEADINGS, make_rows(figures), right=HEADINGS[2:])
        print(f"{figures.chunks:,} chunks, searchable after {figures.seconds:.0f} s")
    for line in figures.misses if misses else ():
        print(line)


if __name__ == "__main__":
    sys.exit(main())
