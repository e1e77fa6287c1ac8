"""Recording and exporting of spans, configured by OpenTelemetry's environment variables."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping

from app.telemetry.tracing import use_tracer

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
