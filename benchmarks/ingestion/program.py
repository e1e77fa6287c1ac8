"""Measuring ingestion, and telling what was found."""

from __future__ import annotations

import sys

from app.cli.execution import run_async
from app.errors import KnowledgeError
from benchmarks.ingestion.course import measure_ingestion
from benchmarks.ingestion.results import IngestionReport, print_ingestion, write_ingestion
from benchmarks.place import KEPT


def run_ingestion(megabytes: int) -> bool:
    """Measure, print the tables and write them; returns whether all went well."""
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
