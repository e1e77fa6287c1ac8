"""Show a report as a table in the terminal."""

from __future__ import annotations

from rich.table import Table

from app.evaluation.output.report import HEADINGS, Report


def make_table(report: Report) -> Table:
    """Make a table with one row for each search variant, and a line between collections."""
    table = Table(*HEADINGS[:2])
    for heading in HEADINGS[2:]:
        table.add_column(heading, justify="right", no_wrap=True)
    shown = ""
    for row in report.rows():
        if shown and row[0] != shown:
            table.add_section()
        table.add_row(row[0] if row[0] != shown else "", *row[1:])
        shown = row[0]
    return table
