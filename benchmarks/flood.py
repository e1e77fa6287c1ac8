"""Does one tenant's flood slow another down? `python -m benchmarks.flood`.

Runs the service in a process of its own. One tenant asks one question after the other, first alone and then while many
callers of a second tenant, in a third process, send as much as they can; in turns, so that both see the same machine.
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
import orjson

from app.auth.principal import Role
from app.cli.execution import run_async
from app.cli.tokens import make_token
from app.composition import Services, open_services
from app.errors import TenantNotFound
from app.evaluation.collection import Document
from app.settings import Settings
from benchmarks.place import KEPT, ROOT, bench_settings
from benchmarks.texts import make_queries, read_texts, vary_text

SLUGS = ("flooded", "flooding")
WARM_UP_SECONDS = 2.0
START_SECONDS = 60

Body = Callable[[], tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Course:
    """`callers` flood with `kind` for `seconds` in each of `rounds`; each tenant has `entries`."""

    callers: int
    kind: str
    seconds: float
    rounds: int
    entries: int


class Connection:
    """One kept connection that sends JSON and reads the status of the answers."""

    def __init__(self, url: str, token: str) -> None:
        self._address = urlsplit(url)
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes) -> int:
        """The status of the answer, read to its end. Raises OSError, IncompleteReadError."""
        host, port = self._address.hostname, self._address.port
        if self._streams is None:
            self._streams = await asyncio.open_connection(host, port)
        reader, writer = self._streams
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(
                int(answer.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            )
        except BaseException:
            self.close()
            raise
        return int(answer.split(b" ", 2)[1])

    def close(self) -> None:
        """Close it; the next question opens another."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def main(course: Course) -> None:
    """Fill both tenants where that has not been done, measure, print."""
    settings = bench_settings(KEPT / "flood" / "data")
    texts = read_texts(course.entries)
    async with open_services(settings) as services:
        tenants = [await _fill(services, slug, texts, course.entries) for slug in SLUGS]
        tokens = [make_token(settings, tenant, [Role.CREATOR], "flood", 7200) for tenant in tenants]
    async with _serve(settings) as url:
        asked = _searches(texts, seed=1)
        alone: list[float] = []
        beside: list[float] = []
        answers: Counter[str] = Counter()
        await _ask(url, tokens[0], asked, WARM_UP_SECONDS)
        for number in range(course.rounds):
            alone += await _ask(url, tokens[0], asked, course.seconds)
            async with _flooding(url, tokens[1], course, texts, answers):
                await asyncio.sleep(WARM_UP_SECONDS)
                beside += await _ask(url, tokens[0], asked, course.seconds)
            print(f"round {number + 1}: {_describe(alone)} alone, {_describe(beside)} beside the flood")
    p95 = [float(np.quantile(times, 0.95)) for times in (alone, beside)]
    flooded = (course.seconds + WARM_UP_SECONDS) * course.rounds
    rates = ", ".join(f"{n / flooded:.0f}/s {status}" for status, n in sorted(answers.items()))
    print(f"the flood of {course.callers} callers ({course.kind}) was answered: {rates}")
    print(f"p95 beside it is {p95[1] / p95[0]:.2f} times the p95 alone")


@contextlib.asynccontextmanager
async def _serve(settings: Settings) -> AsyncIterator[str]:
    """`knowledge serve` with the settings of the environment, but for the place and the address."""
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
        yield url
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def _fill(services: Services, slug: str, texts: Sequence[Document], entries: int) -> UUID:
    with contextlib.suppress(TenantNotFound):
        tenant = await services.tenants.find(slug)
        if (await services.administration.stats(tenant.id))["entries"] >= entries:
            return tenant.id
        await services.tenants.delete(tenant.id, actor="benchmark")
    tenant = await services.tenants.create(slug, actor="benchmark")
    generator = random.Random(slug)
    contents = [
        vary_text(t, generator.choice(texts), generator)
        for t in itertools.islice(itertools.cycle(texts), entries)
    ]
    for first in range(0, entries, 500):
        batch = [{"content": f"{n} {text}"} for n, text in enumerate(contents[first : first + 500], first)]
        await services.entries.create_many(tenant.id, batch)
    await services.embedder.embed_all(tenant.id)
    return tenant.id


def _searches(texts: Sequence[Document], seed: int) -> Iterator[tuple[str, bytes]]:
    for query in make_queries(texts, seed):
        yield "/knowledge/search", orjson.dumps({"query": query})


def _writes(texts: Sequence[Document], seed: int) -> Iterator[tuple[str, bytes]]:
    generator = random.Random(seed)
    for number in itertools.count():
        text = vary_text(generator.choice(texts), generator.choice(texts), generator)
        yield "/knowledge/entries", orjson.dumps({"content": f"{seed} {time.time_ns()} {number} {text}"})


KINDS = {"search": _searches, "write": _writes}


async def _ask(url: str, token: str, asked: Iterator[tuple[str, bytes]], seconds: float) -> list[float]:
    """Seconds that each answer took, one caller."""
    connection = Connection(url, token)
    latencies: list[float] = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        status = await connection.post(*next(asked))
        if status != 200:
            raise SystemExit(f"the tenant that keeps its limits was answered {status}")
        latencies.append(time.perf_counter() - started)
    connection.close()
    return latencies


@contextlib.asynccontextmanager
async def _flooding(
    url: str, token: str, course: Course, texts: Sequence[Document], answers: Counter[str]
) -> AsyncIterator[None]:
    """The flood, while the block runs; adds up how it was answered."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    counted = context.SimpleQueue()
    arguments = (url, token, course.callers, course.kind, texts, stop, counted)
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
        connection = Connection(url, token)
        sent = KINDS[kind](texts, seed)
        while not stop.is_set():
            try:
                answers[str(await connection.post(*next(sent)))] += 1
            except (OSError, asyncio.IncompleteReadError):
                answers["refused"] += 1
        connection.close()

    async def flood() -> None:
        await asyncio.gather(*(call(os.getpid() * 1000 + n) for n in range(callers)))

    asyncio.run(flood())
    counted.put(answers)


def _describe(latencies: Sequence[float]) -> str:
    p50, p95 = np.quantile(latencies, (0.5, 0.95)) * 1000
    return f"p50 {p50:.1f} ms, p95 {p95:.1f} ms"


def read_course(arguments: Sequence[str]) -> Course:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flood", description=__doc__)
    parser.add_argument("--callers", type=int, default=32, help="callers that flood (32)")
    parser.add_argument("--kind", choices=sorted(KINDS), default="search", help="what they send (search)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each phase (8)")
    parser.add_argument("--rounds", type=int, default=3, help="of both phases (3)")
    parser.add_argument("--entries", type=int, default=2_000, help="in each tenant (2000)")
    given = parser.parse_args(arguments)
    return Course(given.callers, given.kind, given.seconds, given.rounds, given.entries)


if __name__ == "__main__":
    run_async(main(read_course(sys.argv[1:])))
