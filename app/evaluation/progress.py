"""Telling a person how far long work is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_SECONDS = 10.0
"""How often plain output says how far a step is."""


class Step(Protocol):
    """One piece of work with a known size."""

    def advance(self, amount: int = 1) -> None:
        """Say that `amount` more is done."""
        ...


class ProgressReporter(Protocol):
    """Shows steps as they go."""

    def step(self, label: str, total: int) -> contextlib.AbstractContextManager[Step]:
        """A step of `total` pieces, shown until the block is left."""
        ...


class _Bar:
    def __init__(self, progress: Progress, label: str, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task(label, total=total)

    def advance(self, amount: int = 1) -> None:
        self._progress.advance(self._task, amount)


class _Lines:
    def __init__(self, console: Console, label: str, total: int, clock: Callable[[], float]) -> None:
        self._console, self._label, self._total, self._clock = console, label, total, clock
        self._done = 0
        self._said_at = clock()
        console.print(f"{label}: {total}", highlight=False)

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        now = self._clock()
        if now - self._said_at >= PLAIN_SECONDS:
            self._said_at = now
            self._console.print(f"{self._label}: {self._done}/{self._total}", highlight=False)


class ConsoleProgress:
    """ProgressReporter for a console, meant for stderr so that stdout stays the command's result."""

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock

    @contextlib.contextmanager
    def step(self, label: str, total: int) -> Iterator[Step]:
        if not self._console.is_terminal:
            yield _Lines(self._console, label, total, self._clock)
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            yield _Bar(progress, label, total)


class _Silence:
    def advance(self, amount: int = 1) -> None:
        return None


class NoProgress:
    """ProgressReporter that shows nothing."""

    @contextlib.contextmanager
    def step(self, label: str, total: int) -> Iterator[Step]:
        yield _Silence()
