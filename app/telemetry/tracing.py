"""Spans: the parts of a request or a job, and their durations.

Without a tracer, the default, a span is one shared object that does nothing. Attributes are numbers, kinds and
ids; never a query, content, a token, a key or a value of an SQL statement.
"""

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Literal, Protocol, Self

Attribute = str | int | float | bool
SpanKind = Literal["internal", "server", "client", "consumer"]


class Span(Protocol):
    """A running part of the work."""

    def set(self, **attributes: Attribute | None) -> None:
        """Record attributes; None is skipped."""

    def rename(self, name: str) -> None:
        """Rename the span when its name becomes known."""

    def fail(self, reason: str) -> None:
        """Mark it as failed; `reason` is the name of a kind of failure."""


class Tracer(Protocol):
    """Records spans."""

    def start(
        self, name: str, kind: SpanKind, parent: Mapping[str, str] | None, attributes: Mapping[str, Attribute | None]
    ) -> contextlib.AbstractContextManager[Span]:
        """A span that lasts as long as the block; `parent` are W3C trace context headers of a caller."""

    def current(self) -> tuple[str, str] | None:
        """The ids of the current trace and span, in hexadecimal; None where nothing is recorded."""


class _NullSpan:
    """The span that is used while nothing is recorded."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def set(self, **attributes: Attribute | None) -> None: ...

    def rename(self, name: str) -> None: ...

    def fail(self, reason: str) -> None: ...


NULL_SPAN = _NullSpan()
_tracer: Tracer | None = None


def span(
    name: str, kind: SpanKind = "internal", parent: Mapping[str, str] | None = None, **attributes: Attribute | None
) -> contextlib.AbstractContextManager[Span]:
    """A span around a block; spans inside, also in tasks that it starts, become its children."""
    if _tracer is None:
        return NULL_SPAN
    return _tracer.start(name, kind, parent, attributes)


def current_ids() -> tuple[str, str] | None:
    """The ids of the current trace and span, for logs; None while nothing is recorded."""
    return None if _tracer is None else _tracer.current()


@contextlib.contextmanager
def use_tracer(tracer: Tracer) -> Iterator[None]:
    """Record the spans of this process with `tracer` while the block runs."""
    global _tracer
    before, _tracer = _tracer, tracer
    try:
        yield
    finally:
        _tracer = before


log = logging.getLogger("app.telemetry")

FLUSH_SECONDS = 5.0
"""How long a shutdown waits for the export of the last spans."""


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment names a collector for traces, and does not switch it off."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() not in ("", "otlp"):
        return False
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return any(environment.get(name, "").strip() for name in names)


@contextlib.asynccontextmanager
async def open_tracing(environment: Mapping[str, str] | None = None) -> AsyncIterator[None]:
    """Record spans while the block runs, if a collector is configured and the extra `otel` is installed."""
    if not is_wanted(os.environ if environment is None else environment):
        yield
        return
    try:
        from app.telemetry.opentelemetry import OpenTelemetryTracer, make_provider
    except ImportError:
        log.warning("no traces: a collector is configured, but the extra otel is not installed")
        yield
        return
    provider = await asyncio.to_thread(make_provider)
    log.info("traces are recorded")
    try:
        with use_tracer(OpenTelemetryTracer(provider)):
            yield
    finally:
        await _run_aside(provider.shutdown, FLUSH_SECONDS)


async def _run_aside(work: Callable[[], None], patience: float) -> None:
    """Run `work` in a thread; wait for it at most `patience` seconds."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        work()
        with contextlib.suppress(RuntimeError):  # the loop may have been closed
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="last-spans", daemon=True).start()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await done.wait()
