"""Accepts connections at an address that several processes share, so that each has as many as the others."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from app.concurrency.processes.figures import Figures

log = logging.getLogger("app.cli.serve")

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
