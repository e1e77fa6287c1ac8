"""The uvicorn server: it stops in steps, and shares its address with other processes."""

import asyncio
import contextlib
import errno
import functools
import logging
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from fastapi import FastAPI

from app.concurrency.background import on_signals
from app.concurrency.part import Figures, Part
from app.errors import ConfigurationError
from app.web.connection import BoundedConnection
from app.web.occupancy import Occupancy, raise_descriptor_limit

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 0.003
"""A process that has more connections than another leaves a new one to it for this long."""

EXHAUSTED_SECONDS = 1.0
"""Pause when there are no descriptors for another connection."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts one connection at a time: a loop that takes all that wait would leave none to the other processes."""

    def __init__(
        self,
        listener: socket.socket,
        connect: Callable[[], asyncio.Protocol],
        figures: Figures,
        count: Callable[[], int],
    ) -> None:
        """`connect` makes the protocol of a connection; `count` returns the number of open ones."""
        self._listener = listener
        self._connect = connect
        self._figures = figures
        self._count = count
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to accept."""
        self._figures.serve(accepts=True)
        self._loop.add_reader(self._listener, self._accept)

    def stop(self) -> None:
        """Accept nothing more; connections that wait are left to the other processes."""
        self._figures.serve(accepts=False)
        self._loop.remove_reader(self._listener)
        if self._pause is not None:
            self._pause.cancel()

    def _accept(self) -> None:
        if self._count() + len(self._connecting) > self._figures.fewest_elsewhere():
            self._wait(PATIENCE_SECONDS, self._take)
        else:
            self._take()

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._listener)

        def resume() -> None:
            self._pause = None
            self._loop.add_reader(self._listener, self._accept)
            then()

        self._pause = self._loop.call_later(seconds, resume)

    def _take(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            # Usually another process was faster.
            if error.errno in _EXHAUSTED:
                log.error("no connection can be accepted: %s", error.strerror)
                self._wait(EXHAUSTED_SECONDS, lambda: None)
            return
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._open(connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _open(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._connect, connection)
        except OSError:
            connection.close()  # the caller has given up


GRACE_SECONDS = 20
"""Seconds for requests in progress after a signal; less than the 30 s that container engines wait."""

DATE_SECONDS = 1.0

LEAVING_SECONDS = 0.1
"""Interval at which a process that is replaced looks whether its last connection has ended."""


class Server(uvicorn.Server):
    """Answers requests until a signal; a second signal does not wait for requests in progress.

    SIGTERM is used behind a load balancer: the service first reports that it is not ready, and keeps serving for
    `drain_seconds` so that the load balancer can notice. SIGHUP tells one of several processes that another takes its
    place: it accepts no further connections, and ends those that it has after their next answer.
    """

    def __init__(
        self,
        app: FastAPI,
        announce: Callable[[], None],
        part: Part | None = None,
        *,
        connections_per_address: int,
        drain_seconds: float,
    ) -> None:
        """`announce` is called when connections are accepted; `part` is that of one of several processes."""
        occupancy = Occupancy(per_address=connections_per_address, total=raise_descriptor_limit(), part=part)
        self._connect = functools.partial(BoundedConnection, occupancy=occupancy)
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                http=self._connect,  # type: ignore[arg-type]  # uvicorn only calls it
                ws="none",
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self._state = app.state
        self._drain_seconds = drain_seconds
        self._announce = announce
        self._part = part
        self._acceptor: Acceptor | None = None
        self._finished = asyncio.Event()

    async def main_loop(self) -> None:
        """Serve until it is time to stop. Once a second, the date of answers changes."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DATE_SECONDS):
                    await self._finished.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals here: uvicorn would send itself the signal again after its shutdown."""
        with on_signals(self.stop):
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTERM, self.drain)
            if self._part is not None:
                loop.add_signal_handler(signal.SIGHUP, self.leave)
            yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections. Raises ConfigurationError."""
        try:
            if self._part is None:
                await super().startup(sockets)
            else:
                assert sockets is not None
                self._share(sockets[0], self._part)
        except OSError as error:
            raise ConfigurationError("KB_PORT", f"cannot listen ({error.strerror})") from error
        self._announce()

    def _share(self, listener: socket.socket, part: Part) -> None:
        def connect() -> asyncio.Protocol:
            return self._connect(config=self.config, server_state=self.server_state, app_state={})

        listener.listen(self.config.backlog)
        self.servers = []
        self._acceptor = Acceptor(listener, connect, part.figures(), lambda: len(self.server_state.connections))
        self._acceptor.start()
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more, and finish the requests in progress."""
        if self._acceptor is not None:
            self._acceptor.stop()
        await super().shutdown(sockets)

    def drain(self) -> None:
        """Report that the service is not ready, and stop after a while; a second time, stop."""
        if self._state.stopping:
            self.stop()
            return
        log.info("draining", extra={"seconds": self._drain_seconds})
        self._state.draining = self._state.stopping = True
        asyncio.get_running_loop().call_later(self._drain_seconds, self.finish)

    def leave(self) -> None:
        """Leave further connections to the other processes, and stop after the last one, or after a while."""
        if self._state.draining or self._acceptor is None:
            return
        self._state.draining = True
        self._acceptor.stop()
        loop = asyncio.get_running_loop()
        loop.call_later(self._drain_seconds, self.finish)

        def look() -> None:
            if self.server_state.connections:
                loop.call_later(LEAVING_SECONDS, look)
            else:
                self.finish()

        # A connection that was just accepted is counted a moment later.
        loop.call_later(LEAVING_SECONDS, look)

    def finish(self) -> None:
        """Stop after the requests in progress."""
        self.should_exit = True
        self._finished.set()

    def stop(self) -> None:
        """Stop after the requests in progress; a second time, at once."""
        self._state.draining = self._state.stopping = True
        self.force_exit = self.should_exit
        self.finish()
