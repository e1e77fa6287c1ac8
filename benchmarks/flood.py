"""Does one tenant's flood slow another tenant down? `python -m benchmarks.flood`.

Runs the service in its own process. One tenant sends one query after the other, first alone, then while
many callers of a second tenant, in a third process, send as many requests of one kind as they can. The
phases alternate, so that both run under the same conditions. Every answer to the first tenant must use
vectors: a fallback ends the run. The memory is the highest of the service during a flood, compared with that
before all floods.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import multiprocessing
import os
import random
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import numpy as np
import psutil

from app.auth.principal import Role
from app.cli.execution import run_async
from app.cli.token import make_token
from app.composition.services import Services, open_services
from app.errors import TenantNotFound
from app.evaluation.collection import Document
from app.knowledge.entries.drafts import EntryDraft
from app.settings import Settings
from benchmarks.connection import Connection, request_of
from benchmarks.flood_kinds import KINDS, Asked, send_searches
from benchmarks.place import KEPT, ROOT, bench_settings
from benchmarks.texts import read_texts, vary_text

SLUGS = ("flooded", "flooding")
WARM_UP_SECONDS = 2.0
START_SECONDS = 60

GIANTS = 52
"""Entries of the maximum length."""

IDLE = 430
"""Connections without a request."""


@dataclass(frozen=True, slots=True)
class Course:
    """In each of `rounds`, `callers` flood with each of `kinds` for `seconds`; each tenant has `entries`."""

    callers: int
    kinds: Sequence[str]
    seconds: float
    rounds: int
    entries: int


async def main(course: Course) -> None:
    """Fill both tenants if they are not filled, measure, print."""
    settings = bench_settings(KEPT / "flood" / "data")
    texts = read_texts(course.entries)
    async with open_services(settings) as services:
        tenants = [await _fill(services, slug, texts, course.entries) for slug in SLUGS]
        tokens = [make_token(settings, tenant, [Role.TENANT_ADMIN], "flood", 7200) for tenant in tenants]
    if set(course.kinds) & {"giant", "unread"}:
        await _fill_with_giants(settings, tenants[1])
    async with _serve(settings) as (url, memory):
        await _ask(url, tokens[0], send_searches(texts, seed=1), WARM_UP_SECONDS)
        quiet = memory()
        print(f"memory of the service before the floods: {quiet >> 20} MiB")
        for kind in course.kinds:
            await _measure(url, tokens, kind, course, texts, memory, quiet)


async def _fill_with_giants(settings: Settings, tenant: UUID) -> None:
    async with open_services(settings) as services:
        drafts = [
            EntryDraft(content=f"giant {n} " + "\u00e9\n" * 49_990, external_id=f"giant-{n}")
            for n in range(GIANTS)
        ]
        await services.entries.create_many(tenant, drafts)


async def _measure(
    url: str,
    tokens: Sequence[str],
    kind: str,
    course: Course,
    texts: Sequence[Document],
    memory: Callable[[], int],
    quiet: int,
) -> None:
    asked = send_searches(texts, seed=2)
    alone: list[float] = []
    during: list[float] = []
    answers: Counter[str] = Counter()
    most = 0
    for _ in range(course.rounds):
        alone += await _ask(url, tokens[0], asked, course.seconds)
        async with _flooding(url, tokens[1], course.callers, kind, texts, answers):
            watching = asyncio.create_task(_watch(memory))
            await asyncio.sleep(WARM_UP_SECONDS)
            during += await _ask(url, tokens[0], asked, course.seconds)
            watching.cancel()
            most = max(most, await watching)
    p95 = [float(np.quantile(times, 0.95)) for times in (alone, during)]
    flooded = (course.seconds + WARM_UP_SECONDS) * course.rounds
    rates = ", ".join(f"{n / flooded:.0f}/s {status}" for status, n in sorted(answers.items()))
    print(
        f"{kind:>9}: p95 during the flood is {p95[1] / p95[0]:.2f} times the p95 alone"
        f" ({_describe(alone)}; {_describe(during)}); memory {most / quiet:.2f} times; "
        f"{course.callers} callers were answered {rates}"
    )


async def _watch(memory: Callable[[], int]) -> int:
    """The highest memory until it is cancelled."""
    most = 0
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            most = max(most, memory())
            await asyncio.sleep(0.05)
    return most


@contextlib.asynccontextmanager
async def _serve(settings: Settings) -> AsyncIterator[tuple[str, Callable[[], int]]]:
    """`knowledge serve` with the settings of the environment, except for the data folder and the address.

    Yields its address and a function that returns its memory in bytes.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    place = {"KB_DATA_DIR": str(settings.database.data_dir.resolve()), "KB_PORT": str(port)}
    with (KEPT / "flood" / "service.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from app.cli.main import run; run()", "serve"),
            cwd=ROOT,
            env={**os.environ, **place},
            stdout=log,
            stderr=log,
        )
    try:
        async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(START_SECONDS):
            while True:
                if process.returncode is not None:
                    raise SystemExit(f"the service did not start; {KEPT / 'flood' / 'service.log'} says why")
                with contextlib.suppress(httpx.TransportError):
                    if (await client.get(f"{url}/readyz")).status_code == 200:
                        break
                await asyncio.sleep(0.1)
        yield url, lambda: int(psutil.Process(process.pid).memory_info().rss)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def _fill(services: Services, slug: str, texts: Sequence[Document], entries: int) -> UUID:
    with contextlib.suppress(TenantNotFound):
        tenant = await services.tenants.find(slug)
        if (await services.administration.stats(tenant.id)).entries >= entries:
            return tenant.id
        await services.tenants.delete(tenant.id, actor="benchmark")
    tenant = await services.tenants.create(slug, actor="benchmark")
    generator = random.Random(slug)
    contents = [
        vary_text(t, generator.choice(texts), generator)
        for t in itertools.islice(itertools.cycle(texts), entries)
    ]
    for first in range(0, entries, 500):
        batch = [
            EntryDraft(content=f"{n} {text}") for n, text in enumerate(contents[first : first + 500], first)
        ]
        await services.entries.create_many(tenant.id, batch)
    await services.embedder.embed_all(tenant.id)
    return tenant.id


async def _ask(url: str, token: str, asked: Iterator[Asked], seconds: float) -> list[float]:
    """Seconds that each response took, for one caller."""
    connection = Connection(url, token)
    latencies: list[float] = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        status, answer = await connection.ask(*next(asked))
        if status != 200 or b'"fallback_mode":true' in answer:
            raise SystemExit(f"the tenant that keeps its limits was answered {status} {answer[-400:]!r}")
        latencies.append(time.perf_counter() - started)
    connection.close()
    return latencies


@contextlib.asynccontextmanager
async def _flooding(
    url: str, token: str, callers: int, kind: str, texts: Sequence[Document], answers: Counter[str]
) -> AsyncIterator[None]:
    """Flood while the block runs, and count the responses by status."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    counted = context.SimpleQueue()
    arguments = (url, token, callers, kind, texts, stop, counted)
    process = context.Process(target=_flood, args=arguments, daemon=True)
    process.start()
    try:
        yield
    finally:
        stop.set()
        answers.update(await asyncio.to_thread(counted.get))
        await asyncio.to_thread(process.join)


def _flood(
    url: str,
    token: str,
    callers: int,
    kind: str,
    texts: Sequence[Document],
    stop: Event,
    counted: multiprocessing.SimpleQueue[Counter[str]],
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers: Counter[str] = Counter()

    async def call(seed: int) -> None:
        if kind in ("idle", "unread"):
            await _hold(url, token, next(KINDS[kind](texts, seed)), kind, stop, answers)
            return
        connection = Connection(url, "" if kind == "openapi" else token)
        sent = KINDS[kind](texts, seed)
        while not stop.is_set():
            try:
                status, _ = await connection.ask(*next(sent))
                answers[str(status)] += 1
            except (OSError, asyncio.IncompleteReadError):
                answers["refused"] += 1
        connection.close()

    async def flood() -> None:
        count = IDLE if kind == "idle" else callers
        await asyncio.gather(*(call(os.getpid() * 1000 + n) for n in range(count)))

    asyncio.run(flood())
    counted.put(answers)


async def _hold(url: str, token: str, asked: Asked, kind: str, stop: Event, answers: Counter[str]) -> None:
    """Keep connections open that send nothing, or read no answer; open another when one is closed."""
    address = urlsplit(url)
    while not stop.is_set():
        try:
            reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1)
        except OSError:
            answers["refused"] += 1
            await asyncio.sleep(0.1)
            continue
        answers["opened"] += 1
        if kind == "unread":
            writer.write(request_of(url, token, *asked))
            reader._transport.pause_reading()  # type: ignore[attr-defined]
        while not (stop.is_set() or writer.is_closing() or reader.at_eof()):  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.1)
        writer.close()


def _describe(latencies: Sequence[float]) -> str:
    p50, p95 = np.quantile(latencies, (0.5, 0.95)) * 1000
    return f"p50 {p50:.1f} ms, p95 {p95:.1f} ms"


def read_course(arguments: Sequence[str]) -> Course:
    """The course that the command line requests."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flood", description=__doc__)
    parser.add_argument("--callers", type=int, default=32, help="callers that flood (32)")
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", help="what they send (every kind)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each phase (8)")
    parser.add_argument("--rounds", type=int, default=2, help="of both phases (2)")
    parser.add_argument("--entries", type=int, default=2_000, help="in each tenant (2000)")
    given = parser.parse_args(arguments)
    return Course(given.callers, given.kind or list(KINDS), given.seconds, given.rounds, given.entries)


if __name__ == "__main__":
    run_async(main(read_course(sys.argv[1:])))
