"""How fast the processor is while a benchmark runs: on shared machines, one day and the next differ by two times."""

import statistics
import time

ROUNDS = 15
STEPS = 200_000


def measure_processor() -> float:
    """The median milliseconds of a fixed loop of 200,000 steps in pure Python."""
    return statistics.median(_time_loop() for _ in range(ROUNDS))


def _time_loop() -> float:
    began = time.perf_counter()
    value = 1
    for step in range(STEPS):
        value = (value * 31 + step) & 0xFFFFFFFF
    return 1000 * (time.perf_counter() - began)
