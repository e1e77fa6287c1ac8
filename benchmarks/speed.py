"""The speed of searches and ingestion: `python -m benchmarks.speed`, or `make bench`; `--parts` selects one
of them, or the indexes of large tenants.

The database and the peers' copies are built once and kept under `.bench/`. Each contender in `contenders/` is measured
on the same tenants with the same queries, in the same run.
"""

import argparse
import asyncio
import contextlib
import itertools
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from app.cli.execution import run_async
from app.cli.output.progress import show_progress
from app.cli.output.text import remark
from app.errors import KnowledgeError
from benchmarks.contender import Absent, Contender, Question, Race, Workload
from benchmarks.contenders import find_contenders
from benchmarks.corpus.dataset import Dataset, open_dataset
from benchmarks.corpus.population import MEASURED, find_tenant, plan_tenants
from benchmarks.ingestion.program import run_ingestion
from benchmarks.load import apply_load
from benchmarks.measures.indexes import measure_indexes
from benchmarks.measures.recall import Truth, measure_recall
from benchmarks.measures.words import measure_words
from benchmarks.memory import postgres_memory, resident
from benchmarks.place import DATA, KEPT
from benchmarks.processor import measure_processor
from benchmarks.report.plots import draw_plots
from benchmarks.report.results import Measurement, Report
from benchmarks.report.tables import print_report, write_report

CACHED_QUERIES = 40
"""Fewer than the service's query cache holds."""

RECALL_QUERIES = 100
SIZES = (1_000, 10_000, 100_000)
CALLERS = (1, 8)
PARTS = ("search", "ingestion", "indexes")
USUAL_PARTS = ("search", "ingestion")
PREPARED = ("bare_sql", "over_http")
"""Contenders that are also measured on the prepared copy of the database."""


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
        report.texts = data.stock.describe()
        for size in course.sizes:
            report.processor.append(measure_processor())
            await _measure_race(data, size, course, report, grown)
            report.postgres_memory[size] = postgres_memory(DATA)
    async with open_dataset(show_progress, prepared=True) as data:
        for size in course.sizes:
            report.processor.append(measure_processor())
            await _measure_prepared(data, size, course, report)
    report.processor.append(measure_processor())


def _make_race(data: Dataset, size: int) -> Race:
    return Race(
        dataset=data.tenant(size),
        settings=data.settings,
        addresses=data.addresses,
        services=data.services,
        server=data.server,
        stock=data.stock,
        tenants=plan_tenants(),
        measured=[find_tenant(size) for size in MEASURED],
        kept=KEPT,
        progress=show_progress,
    )


async def _make_questions(race: Race, count: int) -> list[Question]:
    texts = itertools.islice(race.dataset.make_queries(seed=0), count)
    return [Question(text, await race.services.provider.embed_query(text)) for text in texts]


async def _measure_prepared(data: Dataset, size: int, course: Course, report: Report) -> None:
    race, grid = _make_race(data, size), Grid()
    cached = await _make_questions(race, CACHED_QUERIES)
    async with contextlib.AsyncExitStack() as stack:
        for name, enter in find_contenders():
            if name in PREPARED and (course.contenders is None or name in course.contenders):
                await _line_up(race, stack, enter(race), cached, grid)
        for callers, contender in itertools.product(course.callers, grid.contenders):
            named = replace(contender, name=f"{contender.name}, after `vacuum analyze`", is_floor=False)
            remark(f"{size:,} entries, {callers} callers: {named.name}")
            questions = itertools.cycle(cached)
            report.measurements.append(
                await _measure(race, named, "cached", questions, callers, course.seconds, grid.grown)
            )


async def _measure_race(data: Dataset, size: int, course: Course, report: Report, grown: dict[str, int]) -> None:
    race = _make_race(data, size)
    tenant = race.dataset
    asked = await _make_questions(race, max(CACHED_QUERIES, RECALL_QUERIES))
    texts = [question.text for question in asked]
    remark(f"{size:,} entries: the keyword leg and exact BM25")
    report.words.append(await measure_words(data.services, tenant.population, texts))
    cached = asked[:CACHED_QUERIES]
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
            report.setups[contender.name] = contender.setup
            if contender.entries is not None:
                report.entries[contender.name] = contender.entries
        # Each contender is asked the same new queries, and none of them twice.
        new = {c.name: (Question(text) for text in tenant.make_queries(seed=1)) for c in grid.contenders}
        for callers, contender in itertools.product(course.callers, grid.contenders):
            for workload in contender.workloads:
                remark(f"{size:,} entries, {callers} callers: {contender.name}, {workload}")
                questions = itertools.cycle(cached) if workload == "cached" else new[contender.name]
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
    spent = time.process_time()
    timings = await apply_load(lambda: contender.search(next(questions)), callers, seconds)
    spent = time.process_time() - spent
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
        1000 * spent / timings.asked if contender.memory else None,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested measurements; returns the exit status.

    It is 1 after an error, and when the service returned fewer hits than exist.
    """
    names = [name for name, _ in find_contenders()]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description="Measure speed.")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, choices=MEASURED, help="entries of the tenants")
    parser.add_argument("--callers", type=int, nargs="+", default=CALLERS, help="callers at once")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each measurement takes")
    parser.add_argument("--contenders", nargs="+", choices=names, help="contenders to measure; default: all")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=USUAL_PARTS, help="parts to measure")
    parser.add_argument(
        "--megabytes", type=int, default=100, help="megabytes of files ingested while memory is sampled; 0: none"
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="with the part indexes: build each again as the service does, minutes"
    )
    chosen = parser.parse_args(arguments)
    logging.getLogger("app").setLevel(logging.WARNING)
    course = Course(chosen.sizes, chosen.callers, chosen.seconds, chosen.contenders)
    well = run_ingestion(chosen.megabytes) if "ingestion" in chosen.parts else True
    if "search" in chosen.parts:
        well = run_search(course) and well
    if "indexes" in chosen.parts:
        run_async(_measure_indexes(chosen.sizes, rebuild=chosen.rebuild))
    return int(not well)


async def _measure_indexes(sizes: Sequence[int], *, rebuild: bool) -> None:
    async with open_dataset(show_progress) as data:
        await measure_indexes(data, sizes, show_progress, KEPT, rebuild=rebuild)


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
