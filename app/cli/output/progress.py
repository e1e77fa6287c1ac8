"""How far a command is, on stderr: drawn on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from app.cli.output.text import make_console, remark

PLAIN_SECONDS = 5.0
"""Seconds between two lines of progress where there is no terminal."""
PATIENCE_SECONDS = 1.0
"""How long a command may be silent before it shows that it is at work."""


def can_draw(stream: TextIO) -> bool:
    """Whether a line of the stream can be drawn anew."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


@contextmanager
def show_progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yields a function to be called with how much of `total` is done.

    A bar with rate and time left on a terminal; elsewhere a plain line now and then, and one at the end.
    """
    with _bar(label, total) if can_draw(sys.stderr) else _lines(label, total) as report:
        yield report


@contextmanager
def show_waiting(label: str) -> Iterator[None]:
    """After a second, a sign of life with the time taken; on a terminal only."""
    if not can_draw(sys.stderr):
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    progress = Progress(*columns, console=make_console(stderr=True), transient=True)
    progress.add_task(label, total=None)
    timer = threading.Timer(PATIENCE_SECONDS, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        progress.stop()


@contextmanager
def _bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    started = time.monotonic()
    with Progress(*columns, console=make_console(stderr=True)) as progress:
        task = progress.add_task(label, total=total, rate="")
        yield lambda done: progress.update(task, completed=done, rate=_rate(done, started))


@contextmanager
def _lines(label: str, total: int) -> Iterator[Callable[[int], None]]:
    started = shown = time.monotonic()
    last = -1

    def report(done: int) -> None:
        nonlocal shown, last
        now = time.monotonic()
        if done == last or (done < total and now - shown < PLAIN_SECONDS):
            return
        shown, last = now, done
        left = f", {(total - done) * (now - started) / done:.0f} s left" if 0 < done < total else ""
        remark(f"{label}: {done} of {total} ({_rate(done, started)}{left})")

    yield report


def _rate(done: int, started: float) -> str:
    return f"{done / max(time.monotonic() - started, 0.001):.1f}/s"
