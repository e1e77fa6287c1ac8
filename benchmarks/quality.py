"""Ranking quality on judged collections: `python -m benchmarks.quality [COLLECTION …]`, or `make eval`.

Its files are under `.bench/`: its own database, vectors that are kept between runs, the report, and the tables of the
documents, which `python -m benchmarks.report.readme` inserts there.
"""

import argparse
import sys

from app.cli.eval import print_report
from app.cli.execution import run_async
from app.cli.output.progress import show_progress
from app.composition.services import open_services
from app.embeddings.provider import E5, MINILM
from app.errors import KnowledgeError
from app.evaluation.report import Report, evaluate_collections
from app.settings import EmbeddingSettings
from benchmarks.collections.named import MULTILINGUAL, NAMES, is_present, read_collections
from benchmarks.place import COLLECTIONS, KEPT, VECTORS, bench_settings
from benchmarks.report.quality import LANGUAGES, QUALITY, make_language_table, make_quality_table


def main() -> int:
    """Measure, print the tables, and write the report; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description="Measure ranking quality.")
    parser.add_argument("collections", nargs="*", metavar="COLLECTION", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument(
        "--model", choices=(MINILM, E5), default=MINILM, help=f"the second needs the extra multilingual: {E5}"
    )
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.collections if name not in NAMES]:
        parser.error(f"unknown collection: {', '.join(unknown)}")
    names = []
    for name in arguments.collections or NAMES:
        if is_present(name):
            names.append(name)
        else:
            print(f"{name} is not measured: {COLLECTIONS} does not exist.")
    if not names:
        return 0
    settings = bench_settings(KEPT / "quality-data")
    # A busy machine must not turn into searches by keyword.
    embedding = EmbeddingSettings(model=arguments.model, query_timeout=60)
    settings = settings.model_copy(update={"embedding": embedding})
    try:
        report = run_async(
            evaluate_collections(open_services(settings), read_collections(names), show_progress, vector_cache=VECTORS)
        )
    except KnowledgeError as error:
        print(error, file=sys.stderr)
        return 1
    print_report(report)
    stem = "quality" if arguments.model == MINILM else f"quality-{arguments.model}"
    for path in report.write(KEPT, stem):
        print(path)
    if stem == "quality":
        write_tables(report)
    return 0


def write_tables(report: Report) -> None:
    """Write the tables of the documents for which everything was measured."""
    measured = {evaluation.collection.name: evaluation for evaluation in report.evaluations}
    if set(measured) == set(NAMES):
        (KEPT / QUALITY).write_text(make_quality_table(report), encoding="utf-8")
    if MULTILINGUAL.name in measured:
        table = make_language_table(measured[MULTILINGUAL.name])
        (KEPT / LANGUAGES).write_text(table, encoding="utf-8")
    print("`python -m benchmarks.report.readme` inserts the tables into the documents")


if __name__ == "__main__":
    sys.exit(main())
