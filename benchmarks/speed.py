"""How fast a hybrid search is: `python -m benchmarks.speed`, or `make bench`.

The database it needs is built once and kept under `.bench/`. Each contender of `contenders/` is measured on the
same tenants with the same questions, in the same run; the last columns compare it with the floor.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import logging
import sys
from collections.abc import Iterator, Sequence

from app.bootstrap import open_database
from app.cli.execution import run_async
from app.cli.terminal import remark, show_progress
from app.composition import open_services
from app.errors import KnowledgeError
from app.settings import Settings
from benchmarks.contender import Absent, Contender, Question, Race, Workload
from benchmarks.contenders import find_contenders
from benchmarks.dataset import prepare_dataset
from benchmarks.load import apply_load
from benchmarks.place import KEPT, bench_settings
from benchmarks.results import Measurement, print_table, write_results
from benchmarks.texts import make_queries

CACHED_QUERIES = 40
"""Fewer than the service's query cache holds."""


async def measure_all(
    settings: Settings, sizes: Sequence[int], callers: Sequence[int], seconds: float
) -> list[Measurement]:
    """Build what is missing, then measure every contender at every size. Raises KnowledgeError."""
    found: list[Measurement] = []
    async with open_database(settings) as addresses, open_services(settings) as services:
        datasets = [await prepare_dataset(services, size, show_progress) for size in sizes]
        for dataset in datasets:
            found += await _measure_race(Race(dataset, settings, addresses, services), callers, seconds)
    return found


async def _measure_race(race: Race, callers: Sequence[int], seconds: float) -> list[Measurement]:
    found: list[Measurement] = []
    numbers = itertools.count(1)
    originals = list(race.dataset.originals)
    texts = list(itertools.islice(make_queries(originals, seed=0), CACHED_QUERIES))
    cached = [Question(text, await race.services.provider.embed_query(text)) for text in texts]
    async with contextlib.AsyncExitStack() as stack:
        contenders: list[Contender] = []
        for module, enter in find_contenders():
            try:
                contenders.append(await stack.enter_async_context(enter(race)))
            except Absent as reason:
                remark(f"{module} does not take part: {reason}")
        for contender in contenders:
            for question in cached:
                await contender.search(question)
        for count, contender in itertools.product(callers, contenders):
            for workload in contender.workloads:
                remark(f"{race.dataset.size} entries, {count} callers: {contender.name}, {workload}")
                questions = (
                    itertools.cycle(cached)
                    if workload == "cached"
                    else (Question(text) for text in make_queries(originals, seed=next(numbers)))
                )
                found.append(await _measure(race, contender, workload, questions, count, seconds))
    return found


async def _measure(
    race: Race,
    contender: Contender,
    workload: Workload,
    questions: Iterator[Question],
    callers: int,
    seconds: float,
) -> Measurement:
    timings = await apply_load(lambda: contender.search(next(questions)), callers, seconds)
    memory = contender.memory() if contender.memory else None
    return Measurement(
        contender.name, contender.is_floor, workload, race.dataset.size, callers, timings, memory
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print one table, and write the results; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description="Measure search speed.")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1_000, 10_000], help="entries of the tenants"
    )
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 8, 32], help="callers at once")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each measurement takes")
    chosen = parser.parse_args(arguments)
    logging.getLogger("app").setLevel(logging.WARNING)
    try:
        found = run_async(measure_all(bench_settings(), chosen.sizes, chosen.callers, chosen.seconds))
    except KnowledgeError as error:
        print(error, file=sys.stderr)
        return 1
    print_table(found)
    for path in write_results(found, KEPT):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
