"""Start background work outside of requests, end work on a signal, load things once, and return memory to the system
after large bodies.
"""

import asyncio
import contextlib
import functools
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from typing import Any, TypeVar

from app.kernel import release_free_memory

Result = TypeVar("Result")


def start_background(work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """Start work that is independent of requests: its log lines name no request, not even the one that started it."""
    # Otherwise a task keeps a copy of its creator's context variables, such as the id and the span of a request.
    return asyncio.create_task(work, context=Context())


@contextlib.contextmanager
def on_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` at SIGINT and SIGTERM, inside the running event loop."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def once(load: Callable[[], Result]) -> Callable[[], Result]:
    """Call a function at its first use only; threads that need its result at the same time wait for it."""
    lock, cached = threading.Lock(), functools.cache(load)

    @functools.wraps(load)
    def get() -> Result:
        with lock:
            return cached()

    return get


LARGE = 1024 * 1024
"""Bytes from which a body, an answer or a file counts."""

PAUSE_SECONDS = 1.0
"""Seconds from the first of several large things to the release."""


class MemoryRelease:
    """Returns free memory, which the libraries would keep, to the system soon after something large was used."""

    def __init__(self, release: Callable[[], None] = release_free_memory) -> None:
        self._release = release
        self._timer: asyncio.TimerHandle | None = None

    def note(self, size: int = LARGE) -> None:
        """Note that something of this many bytes is no longer used."""
        if size >= LARGE and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._start)

    def _start(self) -> None:
        self._timer = None
        asyncio.get_running_loop().run_in_executor(None, self._release)
