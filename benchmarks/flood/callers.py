"""The callers that flood, in a process of their own and from an address of their own."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import resource
import select
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from urllib.parse import urlsplit

from app.evaluation.collection import Document
from benchmarks.connection import Connection, request_of
from benchmarks.flood.kinds import KINDS, Asked

ADDRESS = "127.0.0.2"
"""The address of those that flood; the tenant that is measured has another."""

IDLE = 1_200
"""Connections without a request, more than one address may have."""

HELD = frozenset({"idle", "unread"})
"""Kinds whose callers count at the end what they hold."""

RECEIVED_BYTES = 8_192
"""Buffer of a caller that reads no answer, so that the answer waits in the service."""

LOOKS_SECONDS = 0.1
"""Between two looks at whether the service has closed a connection."""


@dataclass(frozen=True, slots=True)
class Flood:
    """`callers` that send requests of one kind."""

    url: str
    token: str
    callers: int
    kind: str
    texts: Sequence[Document]


@contextlib.asynccontextmanager
async def flooding(flood: Flood, answers: Counter[str]) -> AsyncIterator[None]:
    """Flood while the block runs, and count the responses by status, and the connections that are held."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    counted = context.SimpleQueue()
    process = context.Process(target=_run, args=(flood, stop, counted), daemon=True)
    process.start()
    try:
        yield
    finally:
        stop.set()
        answers.update(await asyncio.to_thread(counted.get))
        await asyncio.to_thread(process.join)


def _run(flood: Flood, stop: Event, counted: multiprocessing.SimpleQueue[Counter[str]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_096, most), most))
    answers: Counter[str] = Counter()

    async def call(seed: int) -> None:
        if flood.kind == "idle":
            await _hold_idle(flood.url, stop, answers)
        elif flood.kind == "unread":
            await _hold_unread(flood, next(KINDS["unread"](flood.texts, seed)), stop, answers)
        else:
            await _send(flood, seed, stop, answers)

    async def call_all() -> None:
        count = IDLE if flood.kind == "idle" else flood.callers
        calls = [asyncio.create_task(call(os.getpid() * 10_000 + n)) for n in range(count)]
        await asyncio.to_thread(stop.wait)
        if flood.kind not in HELD:  # what is not answered yet would be answered at once
            for task in calls:
                task.cancel()
        for task in calls:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    asyncio.run(call_all())
    counted.put(answers)


async def _send(flood: Flood, seed: int, stop: Event, answers: Counter[str]) -> None:
    connection = Connection(flood.url, "" if flood.kind == "openapi" else flood.token, ADDRESS)
    sent = KINDS[flood.kind](flood.texts, seed)
    try:
        while not stop.is_set():
            try:
                status, _ = await connection.ask(*next(sent))
                answers[str(status)] += 1
            except (OSError, asyncio.IncompleteReadError):
                answers["closed"] += 1
    finally:
        connection.close()


async def _hold_idle(url: str, stop: Event, answers: Counter[str]) -> None:
    """Keep a connection open that sends nothing; open another when it is closed."""
    address = urlsplit(url)
    while not stop.is_set():
        try:
            reader, writer = await asyncio.open_connection(address.hostname, address.port, local_addr=(ADDRESS, 0))
        except OSError:
            answers["closed"] += 1
            await asyncio.sleep(LOOKS_SECONDS)
            continue
        answers["opened"] += 1
        reading = asyncio.create_task(reader.read())  # ends when the service closes the connection
        while not stop.is_set() and not reading.done():  # noqa: ASYNC110 (the event is another process's)
            await asyncio.sleep(LOOKS_SECONDS)
        if reading.done():
            with contextlib.suppress(OSError):
                answers["503" if b" 503 " in await reading else "closed"] += 1
        else:
            answers["held"] += 1
            reading.cancel()
        writer.close()


async def _hold_unread(flood: Flood, asked: Asked, stop: Event, answers: Counter[str]) -> None:
    """Ask for an answer and do not read it; ask again when the service closes the connection."""
    address = urlsplit(flood.url)
    request = request_of(flood.url, flood.token, *asked)
    while not stop.is_set():
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)
            try:
                connection.bind((ADDRESS, 0))
                connection.connect((address.hostname, address.port))
                connection.sendall(request)
            except OSError:
                answers["closed"] += 1
                await asyncio.sleep(LOOKS_SECONDS)
                continue
            answers["opened"] += 1
            looking = select.poll()
            looking.register(connection, select.POLLRDHUP)
            while not stop.is_set() and not looking.poll(0):  # noqa: ASYNC110
                await asyncio.sleep(LOOKS_SECONDS)
            answers["held" if stop.is_set() else "closed"] += 1
