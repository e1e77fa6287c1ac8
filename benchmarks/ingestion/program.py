"""Run the ingestion benchmark and report its results."""

import sys

from app.cli.execution import run_async
from app.errors import KnowledgeError
from benchmarks.ingestion.course import measure_ingestion
from benchmarks.ingestion.results import IngestionReport, print_ingestion, write_ingestion
from benchmarks.place import KEPT


def run_ingestion(megabytes: int) -> bool:
    """Measure, print the tables and write them; returns whether everything succeeded."""
    report, well = IngestionReport(), True
    try:
        run_async(measure_ingestion(report, megabytes))
    except KnowledgeError as error:
        print(error, file=sys.stderr)
        well = False
    finally:
        if report.throughputs:
            print_ingestion(report)
            for path in write_ingestion(report, KEPT):
                print(path)
    return well
