"""Ranking quality on the shared collections: `python -m benchmarks.quality [COLLECTION …]`, or `make eval`.

Its files are under `.bench/`: its own database, vectors that are kept between runs, and the report.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from app.cli.eval import print_report
from app.cli.execution import run_async
from app.cli.output.progress import show_progress
from app.composition.services import open_services
from app.errors import KnowledgeError
from app.evaluation.collection import Collection, read_collection
from app.evaluation.session import evaluate_collections
from benchmarks.place import COLLECTIONS, KEPT, VECTORS, bench_settings

JUDGEMENTS = {
    "scifact": "qrels.tsv",
    "cranfield": "qrels.tsv",
    "xquad-de": "qrels.tsv",
    "squad-dev": "qrels.sample1k.tsv",
}


def read_collections(names: Sequence[str] = tuple(JUDGEMENTS)) -> list[Collection]:
    """The shared collections with these names. Raises UnreadableCollection."""
    return [read_collection(COLLECTIONS / name, Path(JUDGEMENTS[name])) for name in names]


def main() -> int:
    """Measure, print one table, and write the report; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality", description="Measure ranking quality."
    )
    parser.add_argument(
        "collections", nargs="*", metavar="COLLECTION", help=f"of {', '.join(JUDGEMENTS)}; default: all"
    )
    names = parser.parse_args().collections or list(JUDGEMENTS)
    if unknown := [name for name in names if name not in JUDGEMENTS]:
        parser.error(f"unknown collection: {', '.join(unknown)}")
    if not COLLECTIONS.is_dir():
        print(
            f"The judged collections are not here: {COLLECTIONS} does not exist, so there is nothing to measure."
        )
        return 0
    try:
        report = run_async(
            evaluate_collections(
                open_services(bench_settings(KEPT / "quality-data")),
                read_collections(names),
                show_progress,
                vector_cache=VECTORS,
            )
        )
    except KnowledgeError as error:
        print(error, file=sys.stderr)
        return 1
    print_report(report)
    for path in report.write(KEPT, "quality"):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
