"""Memory is given back after large bodies."""

from __future__ import annotations

import asyncio

import pytest

from app.concurrency import release
from app.concurrency.release import LARGE, MemoryRelease


async def test_memory_is_released_once_after_several_large_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "PAUSE_SECONDS", 0.05)
    released = asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()

    def count() -> None:
        loop.call_soon_threadsafe(released.release)

    memory = MemoryRelease(count)
    memory.note(LARGE - 1)
    assert memory._timer is None
    for _ in range(3):
        memory.note(LARGE)
    await asyncio.wait_for(released.acquire(), 10)
    await asyncio.sleep(0.1)
    assert released.locked(), "only once"
    memory.note(LARGE)
    await asyncio.wait_for(released.acquire(), 10)
