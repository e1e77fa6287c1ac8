"""`knowledge worker`: run queued jobs in a separate process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from app.cli.execution import Commands, log_as_service, on_signals, read_settings, run_until_stopped

if TYPE_CHECKING:
    from app.settings import Settings

log = logging.getLogger("app.cli.worker")


program = Commands()


@program.add("knowledge worker", "KB_FILES_AT_ONCE=4 knowledge worker")
def worker() -> None:
    """Run queued jobs (parsing files, creating vectors) until Ctrl-C or SIGTERM, for services with KB_WORKER=off."""
    settings = read_settings(serves=True)
    log_as_service(settings)
    run_until_stopped(_work(settings))


async def _work(settings: Settings) -> None:
    from app.composition.services import open_services
    from app.documents.process.parsing import log_missing_protections
    from app.hosts import bind_metrics
    from app.telemetry.tracing import open_tracing
    from app.web.monitoring import Observation, serve_metrics

    task = asyncio.current_task()
    assert task is not None
    with on_signals(task.cancel):
        async with open_tracing(), open_services(settings) as services:
            with contextlib.ExitStack() as stack:
                if (port := settings.server.metrics_port) is not None:
                    host = settings.server.metrics_host
                    stack.enter_context(serve_metrics(Observation(services), bind_metrics(host, port)))
                log.info("working", extra={"concurrency": settings.ingestion.files_at_once})
                await log_missing_protections()
                await services.worker.run()
