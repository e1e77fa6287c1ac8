"""How fast the processor is while a benchmark runs: on shared machines, one day and the next differ by two times."""

import statistics
import time
from collections.abc import Callable

ROUNDS = 15
STEPS = 200_000


def measure_processor(clock: Callable[[], float] = time.perf_counter) -> float:
    """The median milliseconds of a fixed loop of 200,000 steps in pure Python; by the clock, in seconds."""
    return statistics.median(_time_loop(clock) for _ in range(ROUNDS))


def _time_loop(clock: Callable[[], float]) -> float:
    began = clock()
    value = 1
    for step in range(STEPS):
        value = (value * 31 + step) & 0xFFFFFFFF
    return 1000 * (clock() - began)
