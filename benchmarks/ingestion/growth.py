"""How much memory the service uses while files are ingested."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import psutil

from benchmarks.memory import resident

SECONDS_BETWEEN_LOOKS = 0.25


@dataclass(slots=True)
class Growth:
    """Samples over time: seconds since the start, bytes ingested, resident bytes of the process."""

    looks: list[tuple[float, int, int]] = field(default_factory=list)
    parsers: int = 0
    """The maximum that the confined parsers held together."""

    def by_tenth(self) -> list[int]:
        """The maximum that the process held in each tenth of the bytes.

        A large file counts when its ingestion ends. A tenth that it skips gets the value of the next
        sample.
        """
        total = max((taken for _, taken, _ in self.looks), default=0)
        most, reached = [0] * 10, -1
        for _, taken, held in self.looks:
            tenth = min(9, 10 * taken // total) if total else 0
            for passed in range(min(reached + 1, tenth), tenth + 1):
                most[passed] = max(most[passed], held)
            reached = tenth
        return most


@dataclass(slots=True)
class Meter:
    """Bytes that have been uploaded so far."""

    taken: int = 0


@contextlib.asynccontextmanager
async def watch(growth: Growth, meter: Meter) -> AsyncIterator[None]:
    """Sample the process until the block ends."""
    started = time.perf_counter()

    async def look() -> None:
        while True:
            growth.looks.append((time.perf_counter() - started, meter.taken, resident()))
            growth.parsers = max(growth.parsers, _held_by_parsers())
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait([looking])


def _held_by_parsers() -> int:
    held = 0
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if any("app.documents.process.child" in part for part in child.cmdline()):
                held += int(child.memory_info().rss)
    return held
