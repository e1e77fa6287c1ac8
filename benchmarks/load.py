"""Asking something again and again, by several callers at once, and timing it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Timings:
    """What callers saw: percentiles in milliseconds, answers a second."""

    p50: float
    p95: float
    p99: float
    throughput: float
    answers: int


async def apply_load(ask: Callable[[], Awaitable[object]], callers: int, seconds: float) -> Timings:
    """Let `callers` ask one question after the other for `seconds`, after a fifth of that to warm up."""
    latencies: list[float] = []
    began = time.perf_counter() + seconds / 5
    ends = began + seconds

    async def call() -> None:
        while (started := time.perf_counter()) < ends:
            await ask()
            if started >= began:
                latencies.append(time.perf_counter() - started)

    await asyncio.gather(*(call() for _ in range(callers)))
    took = time.perf_counter() - began
    p50, p95, p99 = np.quantile(latencies, (0.5, 0.95, 0.99)) * 1000
    return Timings(float(p50), float(p95), float(p99), len(latencies) / took, len(latencies))
