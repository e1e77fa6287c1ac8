"""What commands print: results on stdout; progress and remarks on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

PLAIN_SECONDS = 5.0
"""Seconds between two lines of progress where there is no terminal."""


def print_json(value: Any) -> None:
    """One JSON document, indented on a terminal."""
    import orjson

    option = orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0
    typer.echo(orjson.dumps(value, option=option).decode())


def remark(text: str) -> None:
    """A line for the person at the terminal, kept out of the output."""
    typer.echo(text, err=True)


@contextmanager
def show_progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yields a function to be called with how much of `total` is done.

    A bar with rate and time left on a terminal; elsewhere a plain line now and then, and one at the end.
    """
    with _bar(label, total) if sys.stderr.isatty() else _lines(label, total) as report:
        yield report


@contextmanager
def _bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    started = time.monotonic()
    with Progress(*columns, console=Console(stderr=True)) as progress:
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
