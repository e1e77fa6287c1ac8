"""Measure a request from arrival to answer: its time waiting for turns, and its time on the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

_running: ContextVar[Stopwatch | None] = ContextVar("stopwatch", default=None)


class Stopwatch:
    """Runs from its creation; tasks that a request starts share its stopwatch.

    Attributes:
        kept: CPU seconds for which the steps of `Steps` kept the event loop.
        refused: whether the request was refused although its answer has no such status.
    """

    def __init__(self, started: float | None = None) -> None:
        self._started = time.perf_counter() if started is None else started
        self._waits: list[tuple[float, float]] = []
        self.kept = 0.0
        self.refused = False

    @property
    def seconds(self) -> float:
        """Time since the arrival."""
        return time.perf_counter() - self._started

    @property
    def waited(self) -> float:
        """Seconds in which at least one part of the request waited; parts may wait at the same time."""
        total, reached = 0.0, self._started
        for began, ended in sorted(self._waits):
            total += max(0.0, ended - max(began, reached))
            reached = max(reached, ended)
        return total

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of the block as waiting."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._waits.append((began, time.perf_counter()))

    def fork(self) -> Stopwatch:
        """A stopwatch of a part of the request: it has the same arrival, and the waiting so far."""
        forked = Stopwatch(self._started)
        forked._waits = list(self._waits)
        return forked

    @contextmanager
    def joining(self, shared: Stopwatch) -> Iterator[None]:
        """While the block runs, count the waiting of `shared`, the stopwatch of work for several requests."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._waits += [(max(start, began), end) for start, end in shared._waits if end > began]


class Steps(Generic[Result]):
    """Awaits a coroutine, and counts the CPU time of its steps as kept."""

    __slots__ = ("_coroutine", "_stopwatch")

    def __init__(self, coroutine: Coroutine[Any, Any, Result], stopwatch: Stopwatch) -> None:
        self._coroutine, self._stopwatch = coroutine, stopwatch

    def __await__(self) -> Generator[Any, Any, Result]:
        step: Callable[[Any], Any] = self._coroutine.send
        value: Any = None
        awaited: Any = None
        while True:
            began = time.thread_time()
            try:
                awaited = step(value)
            except StopIteration as ended:
                result: Result = ended.value
                return result
            finally:
                self._stopwatch.kept += time.thread_time() - began
                value = None  # an error that ends the coroutine refers to this frame, which would refer to the error
            try:
                value = yield awaited
                step = self._coroutine.send
            except BaseException as error:  # a cancellation, for example, which the coroutine handles
                step, value = self._coroutine.throw, error
            awaited = None  # a future keeps the error that it brought


def current_stopwatch() -> Stopwatch:
    """The stopwatch of the request that this code runs for; a new one outside of requests."""
    return _running.get() or Stopwatch()


@contextmanager
def run_stopwatch(stopwatch: Stopwatch | None = None) -> Iterator[Stopwatch]:
    """Run a stopwatch, by default the current one, for the block and the tasks that it starts."""
    running = stopwatch or current_stopwatch()
    token = _running.set(running)
    try:
        yield running
    finally:
        _running.reset(token)
