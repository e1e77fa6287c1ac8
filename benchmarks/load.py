"""Repeat a request from several concurrent callers and time it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Timings:
    """What callers observed: percentiles in milliseconds, responses a second.

    `answers` were counted, `asked` includes those of the warm-up.
    """

    p50: float
    p95: float
    p99: float
    throughput: float
    answers: int
    asked: int = 0


async def apply_load(ask: Callable[[], Awaitable[object]], callers: int, seconds: float) -> Timings:
    """Let `callers` send one request after the other for `seconds`, after a warm-up of a fifth of that
    time.

    Measuring begins when every caller has finished its warm-up, so that a slow first call on a new
    connection is neither counted nor part of the time. Each caller sends at least one request and waits for
    its last response.
    """
    warm = await _ask_until(ask, callers, time.perf_counter() + seconds / 5)
    began = time.perf_counter()
    latencies = await _ask_until(ask, callers, began + seconds)
    took = time.perf_counter() - began
    p50, p95, p99 = np.quantile(latencies, (0.5, 0.95, 0.99)) * 1000
    return Timings(
        float(p50), float(p95), float(p99), len(latencies) / took, len(latencies), len(warm) + len(latencies)
    )


async def _ask_until(ask: Callable[[], Awaitable[object]], callers: int, end: float) -> list[float]:
    """The seconds that each response took."""
    latencies: list[float] = []

    async def call() -> None:
        while True:
            started = time.perf_counter()
            await ask()
            ended = time.perf_counter()
            latencies.append(ended - started)
            if ended >= end:
                return

    await asyncio.gather(*(call() for _ in range(callers)))
    return latencies
