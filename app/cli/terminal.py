"""What commands print: results on stdout; progress and remarks on stderr.

Colours and drawing follow NO_COLOR, FORCE_COLOR and TERM=dumb, and are left out where the stream is no terminal.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

PLAIN_SECONDS = 5.0
"""Seconds between two lines of progress where there is no terminal."""
PATIENCE_SECONDS = 1.0
"""How long a command may be silent before it shows that it is at work."""
# What is stored may hold sequences that move the cursor or retitle the window: each control sign becomes its picture.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_PICTURES |= {0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}
# Nor may it turn the order of the signs that follow it on the line.
_TURNING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_PICTURES |= dict.fromkeys(_TURNING, 0xFFFD)
# Of the same signs, those that JSON leaves as they are: they stand in strings alone, where an escape says the same.
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_TURNING)}


def print_json(value: Any) -> None:
    """One JSON document; on a terminal indented, and with nothing in it that commands the terminal."""
    import orjson

    if sys.stdout.isatty():
        typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().translate(_ESCAPES))
    else:
        typer.echo(orjson.dumps(value).decode())


def remark(text: str) -> None:
    """A line for the person at the terminal, kept out of the output."""
    typer.echo(make_printable(text), err=True)


def make_printable(text: str) -> str:
    """The text with control signs made visible, so that what is stored cannot command a terminal."""
    return text.translate(_PICTURES)


def flatten(text: str, length: int | None = None) -> str:
    """The text as one printable line, cut with `…` to `length`."""
    line = make_printable(" ".join(text.split()))
    return line if length is None or len(line) <= length else line[: length - 1] + "…"


def make_console(*, stderr: bool = False) -> Console:
    """A console that marks nothing up by itself, and breaks no lines where the stream is no terminal."""
    from rich.console import Console

    console = Console(highlight=False, stderr=stderr)
    if not console.is_terminal:
        console.soft_wrap = True
    return console


def make_text(*parts: tuple[str, str]) -> Text:
    """Text with a style for each part; never markup, since what is stored may look like markup."""
    from rich.text import Text

    return Text.assemble(*((make_printable(text), style) for text, style in parts))


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
