"""Processes that accept connections at one address; here both are in this process."""

import asyncio
import contextlib
import socket

from app.concurrency.memory import SharedMemory
from app.concurrency.part import Part
from app.web.server import PATIENCE_SECONDS, Acceptor


class Process:
    """One process: its acceptor, and its open connections."""

    def __init__(self, listener: socket.socket, part: Part) -> None:
        self.open: list[asyncio.BaseTransport] = []
        self._figures = part.figures()
        self.acceptor = Acceptor(listener, lambda: Connection(self), self._figures, lambda: len(self.open))

    def publish(self) -> None:
        self._figures.count_connections(len(self.open))


class Connection(asyncio.Protocol):
    def __init__(self, process: Process) -> None:
        self._process = process

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._process.open.append(transport)
        self._process.publish()

    def connection_lost(self, exc: Exception | None) -> None:
        self._process.open.remove(self._transport)
        self._process.publish()


async def test_each_process_gets_as_many_connections_as_the_others() -> None:
    memory = SharedMemory(3)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=20))
        listener.setblocking(False)
        # A loop watches a descriptor once, so each has its own.
        left, right = (
            Process(stack.enter_context(listener.dup()), Part(memory, place, place, 2)) for place in range(2)
        )
        for process in (left, right):
            process.acceptor.start()
            stack.callback(process.acceptor.stop)

        async def wait_until_open(number: int) -> None:
            async with asyncio.timeout(60):
                while len(left.open) + len(right.open) != number:  # noqa: ASYNC110 (no event tells)
                    await asyncio.sleep(0.001)

        async def connect(number: int) -> None:
            stack.enter_context(socket.create_connection(listener.getsockname()))
            await wait_until_open(number)
            # At the end of its pause, the process that left this connection to the other would take the next one.
            await asyncio.sleep(2 * PATIENCE_SECONDS)

        for number in range(1, 9):
            await connect(number)
            assert abs(len(left.open) - len(right.open)) <= 1
        for transport in left.open:
            transport.close()
        await wait_until_open(4)
        for number in range(5, 9):
            await connect(number)
        assert (len(left.open), len(right.open)) == (4, 4)
        left.acceptor.stop()
        await connect(9)
        assert (len(left.open), len(right.open)) == (4, 5)
