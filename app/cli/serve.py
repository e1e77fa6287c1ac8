"""`knowledge serve`: serve the HTTP API and the console, and run a worker."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.execution import log_as_service, on_signals, read_settings, run_until_stopped
from app.cli.options import examples
from app.errors import ConfigurationError

if TYPE_CHECKING:
    from app.settings import Settings
    from app.settings.groups import ServerSettings

log = logging.getLogger("app.cli.serve")

GRACE_SECONDS = 20
"""Seconds for requests in progress after a signal; less than the 30 s that container engines wait."""


def register(app: typer.Typer) -> None:
    """Add the command `serve`."""
    app.command(
        epilog=examples("knowledge serve --demo", "knowledge serve --host 0.0.0.0 --port 9000"),
    )(serve)


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on, instead of KB_HOST.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port to listen on, instead of KB_PORT.")
    ] = None,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="Create the tenant demo with sample knowledge, and print how to search it."
        ),
    ] = False,
) -> None:
    """Serve the HTTP API until Ctrl-C or SIGTERM. Without DATABASE_URL, it starts an embedded Postgres."""
    changes = {"KB_HOST": host, "KB_PORT": None if port is None else str(port)}
    settings = read_settings(
        identity_required=True,
        serves=True,
        **{name: value for name, value in changes.items() if value is not None},
    )
    run_until_stopped(_serve(settings, demo))


async def _serve(settings: Settings, demo: bool) -> None:
    task = asyncio.current_task()
    assert task is not None
    with _reserve_port(settings.server.host, settings.server.port) as listener, on_signals(task.cancel):
        from app.cli.demo import load_demo, welcome
        from app.cli.local.server import answering_commands
        from app.composition.identity import open_verifier
        from app.composition.services import open_services
        from app.main import create_app

        if not demo:
            log_as_service(settings)
        async with open_services(settings) as services, open_verifier(settings) as verifier:
            tenant = await load_demo(services) if demo else None
            log_as_service(settings)
            app = create_app(settings, services, verifier)
            # Not uvicorn's lifespan: it would log a failed start as a stack, and exit by itself.
            async with app.router.lifespan_context(app), answering_commands(settings, services):
                address = describe_address(settings.server.host, settings.server.port)

                def announce() -> None:
                    log.info("serving", extra={"address": address})
                    if tenant is not None:
                        typer.echo(welcome(settings, tenant, address))

                await _listen(app, listener, announce, settings.server)


async def _listen(
    app: Any, listener: socket.socket, announce: Callable[[], None], server: ServerSettings
) -> None:
    """Answer requests until a signal; a second signal does not wait for requests in progress.

    SIGTERM is used behind a load balancer: the service first reports that it is not ready, and keeps serving
    for `server.drain_seconds` so that the load balancer can notice.
    """
    import uvicorn

    from app.api.http.connection import BoundedConnection
    from app.api.http.occupancy import Occupancy, raise_descriptor_limit

    occupancy = Occupancy(per_address=server.connections_per_address, total=raise_descriptor_limit())

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            # uvicorn would send itself the signal again after its shutdown.
            with on_signals(self.stop):
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.drain)
                yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            try:
                await super().startup(sockets)
            except OSError as error:
                raise ConfigurationError("KB_PORT", f"cannot listen ({error.strerror})") from error
            announce()

        def drain(self) -> None:
            if app.state.draining:
                self.stop()
                return
            log.info("draining", extra={"seconds": server.drain_seconds})
            app.state.draining = True
            asyncio.get_running_loop().call_later(server.drain_seconds, self.finish)

        def finish(self) -> None:
            self.should_exit = True

        def stop(self) -> None:
            app.state.draining = True
            self.force_exit = self.should_exit
            self.should_exit = True

    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=functools.partial(BoundedConnection, occupancy=occupancy),  # type: ignore[arg-type]
        ws="none",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    await Server(config).serve(sockets=[listener])


@contextlib.contextmanager
def _reserve_port(host: str, port: int) -> Iterator[socket.socket]:
    """Bind a socket before any slow work, so that a port in use is reported immediately."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        raise ConfigurationError("KB_HOST", f"{host} is not an address of this machine") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError as error:
            raise ConfigurationError(
                "KB_PORT",
                f"cannot listen on {host}, port {port} ({error.strerror})",
                "choose another with --port",
            ) from None
        listener.setblocking(False)
        yield listener
    finally:
        listener.close()


def describe_address(host: str, port: int) -> str:
    """The address for callers on this machine."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"
