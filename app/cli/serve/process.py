"""One process that serves: the whole service, or one of several."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from app.cli.execution import log_as_service
from app.concurrency.part import Part

if TYPE_CHECKING:
    from app.settings import Settings

log = logging.getLogger("app.cli.serve")


@dataclass(frozen=True, slots=True)
class Listeners:
    """The sockets of the service, and of its metrics if they have a port of their own."""

    service: socket.socket
    metrics: socket.socket | None

    def close(self) -> None:
        """Close them in this process."""
        self.service.close()
        if self.metrics is not None:
            self.metrics.close()


ALLOCATIONS = 20_000
"""Objects more than before after which the collector looks for cycles among the young ones. A search makes about 2,000,
few of them in cycles: at Python's own 700, it took a quarter of a search's time."""


def keep_loaded_objects() -> None:
    """Exempt what a process has loaded before it serves from the collector: its modules live as long as it does."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])


async def serve(settings: Settings, listeners: Listeners, *, demo: bool, part: Part | None = None) -> None:
    """Serve until a signal. With `demo`, load the sample knowledge first. Raises ConfigurationError."""
    from app.concurrency.background import on_signals

    task = asyncio.current_task()
    assert task is not None
    with on_signals(task.cancel):
        from app.cli.demo import welcome
        from app.cli.output.text import remark
        from app.cli.serve.private import serving_commands
        from app.composition.demo import load_demo
        from app.composition.identity import open_verifier
        from app.composition.services import open_services
        from app.main import create_app
        from app.web.server import Server

        if not demo:
            log_as_service(settings)
        async with open_services(settings, part=part) as services, open_verifier(settings) as verifier:
            tenant = await load_demo(services, remark) if demo else None
            log_as_service(settings)
            app = create_app(settings, services, verifier, part=part, metrics=listeners.metrics)
            # Not uvicorn's lifespan: it would log a failed start as a stack, and exit by itself.
            async with app.router.lifespan_context(app), serving_commands(settings, app):
                address = describe_address(settings.server.host, settings.server.port)

                def announce() -> None:
                    if part is None:
                        log.info("serving", extra={"address": address})
                    if tenant is not None:
                        hints = welcome(settings, tenant, address, alone=part is None)
                        app.state.sign_in_link = hints.link
                        typer.echo(hints.text)

                keep_loaded_objects()
                server = Server(
                    app,
                    announce,
                    part,
                    connections_per_address=settings.server.connections_per_address,
                    drain_seconds=settings.server.drain_seconds,
                )
                await server.serve(sockets=[listeners.service])


def describe_address(host: str, port: int) -> str:
    """The address for callers on this machine."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104  # only compared
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"
