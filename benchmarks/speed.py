"""The speed of searches and ingestion: `python -m benchmarks.speed`, or `make bench`; `--parts` selects one
of them.

The database is built once and kept under `.bench/`. Each contender in `contenders/` is measured on the same
tenants with the same queries, in the same run. The last columns compare it with the floor and its peers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from app.cli.execution import run_async
from app.cli.output.progress import show_progress
from app.cli.output.text import remark
from app.errors import KnowledgeError
from benchmarks.contender import Absent, Contender, Question, Race, Workload
from benchmarks.contenders import find_contenders
from benchmarks.dataset import Dataset, open_dataset
from benchmarks.ingestion.program import run_ingestion
from benchmarks.load import apply_load
from benchmarks.memory import postgres_memory, resident
from benchmarks.place import DATA, KEPT
from benchmarks.plots import draw_plots
from benchmarks.population import MEASURED
from benchmarks.recall import Truth, measure_recall
from benchmarks.results import Measurement, Report
from benchmarks.tables import print_report, write_report
from benchmarks.texts import make_queries

CACHED_QUERIES = 40
"""Fewer than the service's query cache holds."""

RECALL_QUERIES = 100
PARTS = ("search", "ingestion")


@dataclass(frozen=True, slots=True)
class Course:
    """What is measured: `seconds` for each cell of the table; `contenders` are names of modules, None for all."""

    sizes: Sequence[int]
    callers: Sequence[int]
    seconds: float
    contenders: Sequence[str] | None = None


@dataclass(slots=True)
class Grid:
    """The contenders of one race, entered; `grown` is the growth of this process when each was entered,
    over all races.
    """

    grown: dict[str, int] = field(default_factory=dict)
    contenders: list[Contender] = field(default_factory=list)


async def measure_all(course: Course, report: Report) -> None:
    """Build what is missing, then measure every contender at every size. Raises KnowledgeError.

    Measurements before an error are in the report.
    """
    grown: dict[str, int] = {}
    async with open_dataset(show_progress) as data:
        for size in course.sizes:
            await _measure_race(data, size, course, report, grown)
            report.postgres_memory[size] = postgres_memory(DATA)


async def _measure_race(
    data: Dataset, size: int, course: Course, report: Report, grown: dict[str, int]
) -> None:
    tenant = data.tenant(size)
    race = Race(tenant, data.settings, data.addresses, data.services, data.stock, show_progress)
    texts = itertools.islice(make_queries(tenant.originals, seed=0), max(CACHED_QUERIES, RECALL_QUERIES))
    asked = [Question(text, await data.services.provider.embed_query(text)) for text in texts]
    cached = asked[:CACHED_QUERIES]
    numbers = itertools.count(1)
    truth = await asyncio.to_thread(lambda: Truth.of(data.stock.make_vectors(tenant.population)))
    async with contextlib.AsyncExitStack() as stack:
        grid = Grid(grown)
        for name, enter in find_contenders():
            if course.contenders is None or name in course.contenders:
                try:
                    await _line_up(race, stack, enter(race), cached, grid)
                except Absent as reason:
                    report.absent[name] = str(reason)
        for contender in grid.contenders:
            for rare in (False, True):
                remark(f"{size:,} entries: recall of {contender.name}{', with a filter' if rare else ''}")
                measured = await measure_recall(contender, asked[:RECALL_QUERIES], truth, rare)
                if measured is not None:
                    report.recalls.append(measured)
            if contender.entries is not None:
                report.entries[contender.name] = contender.entries
        for callers, contender in itertools.product(course.callers, grid.contenders):
            for workload in contender.workloads:
                remark(f"{size:,} entries, {callers} callers: {contender.name}, {workload}")
                questions = _questions(workload, cached, race, next(numbers))
                report.measurements.append(
                    await _measure(race, contender, workload, questions, callers, course.seconds, grown)
                )


async def _line_up(
    race: Race,
    stack: contextlib.AsyncExitStack,
    entering: contextlib.AbstractAsyncContextManager[Contender],
    cached: Sequence[Question],
    grid: Grid,
) -> None:
    before = resident()
    contender = await stack.enter_async_context(entering)
    for question in cached:
        await contender.search(question)
    grid.grown[contender.name] = grid.grown.get(contender.name, 0) + max(0, resident() - before)
    grid.contenders.append(contender)


def _questions(workload: Workload, cached: Sequence[Question], race: Race, seed: int) -> Iterator[Question]:
    if workload == "cached":
        return itertools.cycle(cached)
    return (Question(text) for text in make_queries(race.dataset.originals, seed=seed))


async def _measure(
    race: Race,
    contender: Contender,
    workload: Workload,
    questions: Iterator[Question],
    callers: int,
    seconds: float,
    grown: dict[str, int],
) -> Measurement:
    if workload == "cached" and "distinct" in contender.workloads:
        # It computes embeddings itself, and the cache may have expired.
        for _ in range(CACHED_QUERIES):
            await contender.search(next(questions))
    timings = await apply_load(lambda: contender.search(next(questions)), callers, seconds)
    memory = contender.memory() if contender.memory else grown[contender.name] if contender.is_peer else None
    return Measurement(
        contender.name,
        contender.is_floor,
        workload,
        race.dataset.size,
        callers,
        timings,
        memory,
        contender.is_peer,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested measurements; returns the exit status.

    It is 1 after an error, and when the service returned fewer hits than exist.
    """
    names = [name for name, _ in find_contenders()]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description="Measure speed.")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=MEASURED, choices=MEASURED, help="entries of the tenants"
    )
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 8, 32], help="callers at once")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each measurement takes")
    parser.add_argument("--contenders", nargs="+", choices=names, help="contenders to measure; default: all")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="parts to measure")
    parser.add_argument(
        "--megabytes",
        type=int,
        default=100,
        help="megabytes of files ingested while memory is sampled; 0: none",
    )
    chosen = parser.parse_args(arguments)
    logging.getLogger("app").setLevel(logging.WARNING)
    course = Course(chosen.sizes, chosen.callers, chosen.seconds, chosen.contenders)
    well = run_ingestion(chosen.megabytes) if "ingestion" in chosen.parts else True
    if "search" in chosen.parts:
        well = run_search(course) and well
    return int(not well)


def run_search(course: Course) -> bool:
    """Measure searches, print the tables, write them and the plots; returns whether everything succeeded."""
    report, failed = Report(), False
    try:
        run_async(measure_all(course, report))
    except KnowledgeError as error:
        print(error, file=sys.stderr)
        failed = True
    finally:
        if report.measurements:
            print_report(report)
            for path in (*write_report(report, KEPT), *draw_plots(report, KEPT, remark)):
                print(path)
    if report.service_missed():
        print("The service returned fewer hits than exist.", file=sys.stderr)
        failed = True
    return not failed


if __name__ == "__main__":
    sys.exit(main())
