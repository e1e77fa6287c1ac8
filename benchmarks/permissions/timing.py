"""Time several ways to answer the same questions, in turn, so that noise of the machine is about the same for all."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.contender import Question

Answer = Callable[[Question], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Paired:
    """Milliseconds of one way, and its ratios to the first one.

    Attributes:
        of_p50: the ratio of both medians.
        of_pairs: the median of the ratios for each question.
    """

    name: str
    p50: float
    p95: float
    of_p50: float
    of_pairs: float


async def time_in_turn(
    ways: Sequence[tuple[str, Answer]], questions: Sequence[Question], rounds: int, warm_up: int = 1
) -> list[Paired]:
    """Each question is answered in all ways, one after the other, and another one comes first each time.

    `warm_up` rounds before are not counted.
    """
    taken: list[list[float]] = [[] for _ in ways]
    for turn in range(-warm_up, rounds):
        for number, question in enumerate(questions):
            for step in range(len(ways)):
                place = (turn + number + step) % len(ways)
                began = time.perf_counter()
                await ways[place][1](question)
                ended = time.perf_counter()
                if turn >= 0:
                    taken[place].append(1000 * (ended - began))
    first = np.array(taken[0])
    return [
        Paired(
            name,
            float(np.median(times)),
            float(np.quantile(times, 0.95)),
            float(np.median(times) / np.median(first)),
            float(np.median(np.array(times) / first)),
        )
        for (name, _), times in zip(ways, taken, strict=True)
    ]
