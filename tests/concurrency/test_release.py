"""Memory is given back after large bodies."""

from __future__ import annotations

import asyncio
import platform
import subprocess
import sys

import pytest

from app.concurrency import background
from app.concurrency.background import LARGE, MemoryRelease


async def test_memory_is_released_once_after_several_large_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_SECONDS", 0.05)
    released = asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()

    def count() -> None:
        loop.call_soon_threadsafe(released.release)

    memory = MemoryRelease(count)
    memory.note(LARGE - 1)
    assert memory._timer is None
    for _ in range(3):
        memory.note(LARGE)
    await asyncio.wait_for(released.acquire(), 60)
    await asyncio.sleep(0.1)
    assert released.locked(), "only once"
    memory.note(LARGE)
    await asyncio.wait_for(released.acquire(), 60)


KEPT = """
import json, psutil, sys, threading
from app.kernel import release_free_memory, return_large_blocks
if sys.argv[1] == "with":
    return_large_blocks(1024 * 1024)
def use():
    body = b'["' + b"x" * (31 << 20) + b'"]'
    for _ in range(2):
        json.loads(body.decode())
before = psutil.Process().memory_info().rss
done, over = threading.Event(), threading.Event()
thread = threading.Thread(target=lambda: (use(), done.set(), over.wait()))
thread.start()
done.wait()
release_free_memory()
print((psutil.Process().memory_info().rss - before) >> 20)
over.set()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such setting")
def test_a_thread_keeps_no_large_block() -> None:
    kept = {
        how: int(subprocess.run([sys.executable, "-c", KEPT, how], capture_output=True, check=True).stdout)
        for how in ("with", "without")
    }
    assert kept["with"] < 8 < kept["without"]
