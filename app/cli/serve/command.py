"""The commands `serve` and `worker`: settings, sockets, and the number of processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.execution import log_as_service, program, read_settings, run_until_stopped
from app.errors import ConfigurationError

if TYPE_CHECKING:
    from app.cli.serve.process import Listeners
    from app.settings import Settings

MOST_BY_DEFAULT = 4
"""Processes on a machine with more cores, unless KB_WORKERS has a number: the database needs cores too."""


@program.add("knowledge serve --demo", "knowledge serve --host 0.0.0.0 --port 9000", "knowledge serve --workers 4")
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on, instead of KB_HOST.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port to listen on, instead of KB_PORT.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=32, help="Processes that serve, instead of KB_WORKERS.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Create the tenant demo with sample knowledge, and print how to search it.")
    ] = False,
) -> None:
    """Serve the HTTP API until Ctrl-C or SIGTERM. Without DATABASE_URL, it starts an embedded Postgres.

    With several processes, SIGHUP reads the settings again and replaces the processes one after another.
    """
    given = {"KB_HOST": host, "KB_PORT": port, "KB_WORKERS": workers}
    changes = {name: str(value) for name, value in given.items() if value is not None}

    def read() -> Settings:
        return read_settings(identity_required=True, serves=True, **changes)

    settings = read()
    with contextlib.closing(_open_listeners(settings)) as listeners:
        if (processes := count_processes(settings)) == 1:
            from app.cli.serve.process import serve as serve_alone

            run_until_stopped(serve_alone(settings, listeners, demo=demo))
            return
        from app.cli.serve.service import Service

        status = Service(settings, read, listeners, processes, demo=demo).run()
    if status:
        raise typer.Exit(status)


def count_processes(settings: Settings) -> int:
    """KB_WORKERS; without it, one with an embedded database, and one for each core up to four with another one."""
    from app.kernel import count_cores

    if settings.server.workers is not None:
        return settings.server.workers
    return 1 if settings.database.embedded else min(MOST_BY_DEFAULT, count_cores())


def _open_listeners(settings: Settings) -> Listeners:
    """Bind the sockets before any slow work, so that a port in use is reported immediately."""
    from app.cli.serve.process import Listeners
    from app.hosts import bind, bind_metrics

    server = settings.server
    remedy = "choose another with --port, or with KB_PORT before the command: KB_PORT=8001 make run"
    service = bind(server.host, server.port, host_setting="KB_HOST", port_setting="KB_PORT", remedy=remedy)
    if server.metrics_port is None:
        return Listeners(service, None)
    try:
        return Listeners(service, bind_metrics(server.metrics_host, server.metrics_port))
    except ConfigurationError:
        service.close()
        raise


log = logging.getLogger("app.cli.worker")


@program.add("knowledge worker", "KB_FILES_AT_ONCE=4 knowledge worker")
def worker() -> None:
    """Run queued jobs (parsing files, creating vectors) until Ctrl-C or SIGTERM, for services with KB_WORKER=off."""
    settings = read_settings(serves=True)
    log_as_service(settings)
    run_until_stopped(_work(settings))


async def _work(settings: Settings) -> None:
    from app.composition.services import open_services
    from app.concurrency.background import on_signals
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
