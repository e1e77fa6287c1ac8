"""Does one tenant's flood slow another tenant down? `python -m benchmarks.flood`.

Runs the service in its own process. One tenant sends one query after the other, first alone, then while many
callers of a second tenant, in a third process and from another address, send as many requests of one kind as
they can, then alone again. Before each phase the service completes what the flood before has left, and before
the first one it takes an entry, for which it loads what each service has loaded after its first. The memory
is the highest of the service and its children in a phase that lasted for two readings. The program fails when
a flood makes the tenant's p50 or p95 more than twice as long, or the memory more than one and a half times as
large, or when one of the tenant's searches fails or runs without vectors.

A tenant that searches all the time keeps its share of the service; with `--pause 1.5` it comes back after the service
has given all of it to the others.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from app.auth.principal import Role
from app.cli.execution import run_async
from app.cli.token import make_token
from app.composition.services import open_services
from app.evaluation.collection import Document
from benchmarks.connection import Connection
from benchmarks.flood.callers import Flood, flooding
from benchmarks.flood.kinds import CLOSED, KINDS, Asked, send_searches, send_writes
from benchmarks.flood.service import ServiceProcess, serve
from benchmarks.flood.stock import FLOODING, MEASURED, SENDERS, fill, remove_assets
from benchmarks.place import KEPT, bench_settings
from benchmarks.texts import read_texts

WARM_UP_SECONDS = 2.0
SLOWER = 2.0
"""The largest ratio of a quantile during a flood to the one alone."""

LARGER = 1.5
"""The largest ratio of the memory during a flood to the one before all floods."""


@dataclass(frozen=True, slots=True)
class Course:
    """In each of `rounds`, `callers` flood with each of `kinds` for `seconds`; each tenant has `entries`.

    The measured tenant waits `pause` seconds after each search.
    """

    callers: int
    kinds: Sequence[str]
    seconds: float
    rounds: int
    entries: int
    pause: float


@dataclass(slots=True)
class Phase:
    """What the measured tenant saw in phases of one sort, and the most memory of the service."""

    latencies: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    memory: int = 0
    calm: bool = True

    def quantile(self, share: float) -> float:
        """A quantile of the latencies, in ms."""
        return float(np.quantile(self.latencies, share)) * 1000


async def main(course: Course) -> None:
    """Fill the tenants that are not full, measure, print. Raises SystemExit when a target is missed."""
    settings = bench_settings(KEPT / "flood" / "data")
    texts = read_texts(course.entries)
    async with open_services(settings) as services:
        tenants = await fill(services, texts, course.entries)
        await remove_assets(services, tenants)
    if not course.kinds:
        return
    tokens = {slug: make_token(settings, t, [Role.TENANT_ADMIN], "flood", 7200) for slug, t in tenants.items()}
    asked = send_searches(texts, seed=2)
    missed = []
    async with serve(settings) as service:
        connection = Connection(service.url, tokens[MEASURED])
        await _write_once(service.url, tokens[FLOODING], texts)
        await _observe(Phase(), connection, asked, replace(course, seconds=WARM_UP_SECONDS), service)
        quiet = Phase(calm=await service.calm_down())
        await _observe(quiet, connection, asked, course, service)
        print(f"alone: {_describe(quiet)}", flush=True)
        for kind in course.kinds:
            token = tokens[SENDERS.get(kind, FLOODING)]
            flood = Flood(service.url, token, course.callers, kind, texts)
            missed += await _measure(flood, course, connection, asked, service, quiet.memory)
        connection.close()
    if missed:
        raise SystemExit("missed: " + "; ".join(missed))


async def _write_once(url: str, token: str, texts: Sequence[Document]) -> None:
    """Write one entry: the model that detects its language takes 100 MB, once for all tenants."""
    connection = Connection(url, token)
    await connection.ask(*next(send_writes(texts, seed=3)))
    connection.close()


async def _measure(
    flood: Flood, course: Course, connection: Connection, asked: Iterator[Asked], service: ServiceProcess, memory: int
) -> list[str]:
    """Print what a flood did, and return the targets that it missed."""
    alone, during = Phase(), Phase()
    answers: Counter[str] = Counter()
    await _observe(alone, connection, asked, course, service)
    for _ in range(course.rounds):
        async with flooding(flood, answers), service.watch() as seen:
            await asyncio.sleep(WARM_UP_SECONDS)
            await _ask(during, connection, asked, course)
        during.memory = max(during.memory, *seen)
        alone.calm &= await service.calm_down()
        await _observe(alone, connection, asked, course, service)
    p50, p95 = (during.quantile(share) / alone.quantile(share) for share in (0.5, 0.95))
    larger = during.memory / memory
    given = ", ".join(f"{number} {status}" for status, number in sorted(answers.items()))
    print(
        f"{flood.kind:>9}: p50 {p50:.2f} times, p95 {p95:.2f} times, memory {larger:.2f} times\n"
        f"           alone {_describe(alone)}\n           flood {_describe(during)}; answered {given}",
        flush=True,
    )
    failed = sum((alone.failures + during.failures).values())
    outcomes = {
        f"p50 {p50:.2f} times": p50 > SLOWER,
        f"p95 {p95:.2f} times": p95 > SLOWER,
        f"memory {larger:.2f} times": larger > LARGER,
        f"{failed} searches failed": failed > 0,
        "no connection was closed": flood.kind in CLOSED and not answers[CLOSED[flood.kind]],
        "no flood": not answers,
    }
    return [f"{flood.kind}: {outcome}" for outcome, missed in outcomes.items() if missed]


async def _observe(
    phase: Phase, connection: Connection, asked: Iterator[Asked], course: Course, service: ServiceProcess
) -> None:
    """Add searches without a flood to a phase."""
    async with service.watch() as seen:
        await _ask(phase, connection, asked, course)
    phase.memory = max(phase.memory, *seen)


async def _ask(phase: Phase, connection: Connection, asked: Iterator[Asked], course: Course) -> None:
    """Search for some seconds, one search after the other, over a new connection."""
    connection.close()
    end = time.perf_counter() + course.seconds
    while (started := time.perf_counter()) < end:
        try:
            status, answer = await connection.ask(*next(asked))
        except (OSError, asyncio.IncompleteReadError):
            phase.failures["connection"] += 1
            continue
        phase.latencies.append(time.perf_counter() - started)
        if status != 200:
            phase.failures[str(status)] += 1
        elif b'"fallback_mode":true' in answer:
            phase.failures["fallback"] += 1
        if course.pause:
            await asyncio.sleep(course.pause)


def _describe(phase: Phase) -> str:
    failures = ", ".join(f"{number} {failure}" for failure, number in sorted(phase.failures.items()))
    return (
        f"p50 {phase.quantile(0.5):.1f} ms, p95 {phase.quantile(0.95):.1f} ms, {phase.memory >> 20} MiB,"
        f" {len(phase.latencies)} searches, failures: {failures or 'none'}{'' if phase.calm else ', not calm'}"
    )


def read_course(arguments: Sequence[str]) -> Course:
    """The course that the command line requests."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flood", description=__doc__)
    parser.add_argument("--callers", type=int, default=32, help="callers that flood (32)")
    parser.add_argument("--kinds", help=f"what they send, separated by commas (all: {','.join(KINDS)})")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each phase (8)")
    parser.add_argument("--rounds", type=int, default=2, help="of both phases (2)")
    parser.add_argument("--entries", type=int, default=2_000, help="in each tenant (2000)")
    parser.add_argument("--pause", type=float, default=0.0, help="of the measured tenant after a search (0)")
    parser.add_argument("--fill", action="store_true", help="only fill the tenants")
    given = parser.parse_args(arguments)
    kinds = [] if given.fill else given.kinds.split(",") if given.kinds else list(KINDS)
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"unknown kinds: {', '.join(sorted(unknown))}")
    return Course(given.callers, kinds, given.seconds, given.rounds, given.entries, given.pause)


if __name__ == "__main__":
    run_async(main(read_course(sys.argv[1:])))
