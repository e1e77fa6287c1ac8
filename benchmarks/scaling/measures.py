"""Latency and throughput of searches and writes, on all kinds of servers in turn."""

import asyncio
import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import psutil

from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.evaluation.collection import Document
from benchmarks.scaling.servers import Served

CALLERS = 8
WARM_UP = 60


@dataclass(slots=True)
class Figures:
    """Seconds of single searches and writes; in each round, of eight callers: searches in a second, and core seconds.

    The core seconds of a search are those in this process (`service`) and in Postgres (`database`).
    """

    searches: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    service: list[float] = field(default_factory=list)
    database: list[float] = field(default_factory=list)

    def summarize(self) -> dict[str, float]:
        """Milliseconds, except for searches in a second: the medians, and the 95th percentile of a search."""
        return {
            "search p50": 1000 * statistics.median(self.searches),
            "search p95": 1000 * statistics.quantiles(self.searches, n=20)[-1],
            "write p50": 1000 * statistics.median(self.writes),
            "searches/s": statistics.median(self.rates),
            "core, service": 1000 * statistics.median(self.service),
            "core, Postgres": 1000 * statistics.median(self.database),
        }


async def measure(
    served: Sequence[Served], texts: Sequence[Document], rounds: int, searches: int, seconds: float
) -> dict[str, Figures]:
    """The figures of each kind; in a round, all kinds take turns."""
    figures = {each.kind: Figures() for each in served}
    queries = _make_queries(texts)
    for each in served:
        for number in range(WARM_UP):
            await _search(each, number, next(queries))
    await _compare(served, [next(queries) for _ in range(WARM_UP)])
    for _ in range(rounds):
        for each in served:
            found = figures[each.kind]
            found.searches += [await _search(each, number, next(queries)) for number in range(searches)]
            before = time.process_time(), _read_postgres_time()
            done, spent = await _count_searches(each, queries, seconds)
            found.rates.append(done / spent)
            found.service.append((time.process_time() - before[0]) / done)
            found.database.append((_read_postgres_time() - before[1]) / done)
            found.writes += [await _write(each, number) for number in range(searches // 4)]
    return figures


async def _compare(served: Sequence[Served], queries: Sequence[str]) -> None:
    """Fail unless all kinds give the same answers; the scores, since entries with equal ones have any order."""
    for number, query in enumerate(queries):
        answers = []
        for each in served:
            tenant = each.tenants[number % len(each.tenants)]
            found = await each.services.search.search(tenant, SearchQuery(query=query))
            answers.append([round(hit.score, 9) for hit in found])
        assert all(answer == answers[0] for answer in answers), (query, answers)


def _make_queries(texts: Sequence[Document]) -> Iterator[str]:
    """Three words of a text, no two of them the same."""
    for number in itertools.count():
        words = texts[number % len(texts)].text.split()
        yield " ".join(words[(7 * number + n) % len(words)] for n in range(3)) + f" {number}"


async def _search(served: Served, number: int, query: str) -> float:
    tenant = served.tenants[number % len(served.tenants)]
    began = time.perf_counter()
    await served.services.search.search(tenant, SearchQuery(query=query))
    return time.perf_counter() - began


async def _write(served: Served, number: int) -> float:
    """One entry; its vector is left to the queue, as in a bulk write."""
    tenant = served.tenants[number % len(served.tenants)]
    draft = EntryDraft(content=f"Written at {time.perf_counter_ns()}.")
    began = time.perf_counter()
    await served.services.entries.create_many(tenant, [draft])
    return time.perf_counter() - began


def _read_postgres_time() -> float:
    """Core seconds of all processes of Postgres on this machine; measure with no other servers."""
    total = 0.0
    for process in psutil.process_iter(["name", "cpu_times"]):
        if process.info["name"] == "postgres" and process.info["cpu_times"] is not None:
            total += process.info["cpu_times"].user + process.info["cpu_times"].system
    return total


async def _count_searches(served: Served, queries: Iterator[str], seconds: float) -> tuple[int, float]:
    """Searches of all callers together, and the seconds that they took."""
    end = time.perf_counter() + seconds
    done = 0

    async def call(number: int) -> None:
        nonlocal done
        while time.perf_counter() < end:
            await _search(served, number, next(queries))
            number += CALLERS
            done += 1

    began = time.perf_counter()
    await asyncio.gather(*(call(number) for number in range(CALLERS)))
    return done, time.perf_counter() - began
