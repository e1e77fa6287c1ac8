"""Progress of a command on stderr: a bar on a terminal, plain lines elsewhere."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from app.cli.output.text import make_console, remark

PLAIN_SECONDS = 5.0
"""Seconds between two lines of progress without a terminal."""
PATIENCE_SECONDS = 1.0
"""Seconds of silence before a command shows that it is working."""


def can_draw(stream: TextIO) -> bool:
    """Whether the stream can redraw a line."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


@contextmanager
def show_progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the finished part of `total`.

    A part above the total counts as all of it. Shows a bar with rate and remaining time on a terminal, which is erased
    if the work ends before its first part; elsewhere a plain line now and then, and one at the end.
    """
    with _bar(label, total) if can_draw(sys.stderr) else _lines(label, total) as report:
        yield lambda done: report(min(done, total))


@contextmanager
def show_waiting(label: str) -> Iterator[None]:
    """Show a spinner with the elapsed time after a second, on a terminal only."""
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
    with Progress(*columns, console=make_console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total, rate="")

        def report(done: int) -> None:
            progress.live.transient = False
            progress.update(task, completed=done, rate=_rate(done, started))

        yield report


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
