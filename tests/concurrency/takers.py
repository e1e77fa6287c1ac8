"""Processes that take from the same shared memory at the same time; prints what they took together."""

import asyncio
import os
import sys
import time
from uuid import UUID

from app.concurrency.memory import SharedMemory
from app.concurrency.part import Part, SharedBuckets
from app.concurrency.turns import Turns

PROCESSES = 3
TENANT = UUID(int=7 << 100)
LIMIT = 300
SECONDS = 0.7


def take_requests(part: Part) -> list[float]:
    """Take all requests that there are; returns their number."""
    buckets, taken, end = SharedBuckets(part.memory), 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        taken += not buckets.take(TENANT, LIMIT)
    return [taken]


async def take_places(part: Part) -> list[float]:
    """Take turns at four places; returns the most that all processes held at once, and the number of turns."""
    turns = Turns(50, common=part.amounts("searches"))
    amounts, most, turned = part.amounts("searches"), 0.0, 0
    end = time.monotonic() + SECONDS

    async def search() -> None:
        nonlocal most, turned
        while time.monotonic() < end:
            await turns.acquire(TENANT, most=4)
            most = max(most, amounts.held(TENANT))
            await asyncio.sleep(0.003)
            turned += 1
            turns.release(TENANT)

    await asyncio.gather(*(search() for _ in range(6)))
    return [most, turned]


def main(what: str) -> None:
    memory = SharedMemory(PROCESSES)
    pipes = [os.pipe() for _ in range(PROCESSES)]
    for place, (_, end) in enumerate(pipes):
        if os.fork() == 0:
            part = Part(memory, place, place, PROCESSES)
            result = take_requests(part) if what == "requests" else asyncio.run(take_places(part))
            os.write(end, " ".join(map(str, result)).encode())
            os._exit(0)
    for _ in pipes:
        os.wait()
    print("\n".join(os.read(begin, 100).decode() for begin, _ in pipes))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
