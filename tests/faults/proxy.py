"""A TCP proxy that simulates network faults."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

Target = Path | tuple[str, int]
"""A Unix socket, or a host and port."""

Fault = Literal["none", "delay", "reset", "black hole"]
"""What happens to bytes; also applies to connections that are already open."""

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class FaultProxy:
    """Forwards bytes between callers and `target`, with the current `fault`.

        Attributes:
    delay: seconds that each piece is delayed while the fault is "delay".
    accepted: number of connections that callers have opened.
    pause: seconds before a new connection is forwarded.
    """

    def __init__(self, target: Target | Callable[[], Target]) -> None:
        self._target = target
        self._fault: Fault = "none"
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._running: set[asyncio.Task[None]] = set()
        self.delay = 0.05
        self.accepted = 0
        self.pause = 0.0
        self.port = 0

    @property
    def open(self) -> int:
        """The number of connected callers."""
        return len(self._running)

    @property
    def fault(self) -> Fault:
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        self._fault = fault
        self._changed.set()
        self._changed = asyncio.Event()
        if fault == "reset":
            self.reset_connections()

    def reset_connections(self) -> None:
        """Reset every open connection."""
        for writer in self._open:
            raw = writer.transport.get_extra_info("socket")
            if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
                with contextlib.suppress(OSError):
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            writer.transport.abort()

    async def listen(self) -> None:
        """Accept connections, on the same port as before `refuse`."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Close the port, so that nothing listens there, and reset open connections."""
        assert self._server is not None
        self._server.close()
        self.reset_connections()
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        self._open.add(writer)
        try:
            if self._fault == "reset":
                self.reset_connections()
                return
            await self._connect(reader, writer)
        except OSError:
            return
        finally:
            self._open.discard(writer)
            self._running.discard(task)
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(self.pause)
        target = self._target() if callable(self._target) else self._target
        if isinstance(target, Path):
            there, back = await asyncio.open_unix_connection(str(target))
        else:
            there, back = await asyncio.open_connection(*target)
        self._open.add(back)
        pumps = [asyncio.create_task(self._pump(reader, back)), asyncio.create_task(self._pump(there, writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._open.discard(back)
            back.close()
            # Bytes in the buffer are still delivered to the caller after the server has closed.
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    writer.close()
                    await writer.wait_closed()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if self._fault == "delay":
                    await asyncio.sleep(self.delay)
                while self._fault == "black hole":
                    await self._changed.wait()
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def proxy_to(target: Target) -> AsyncIterator[FaultProxy]:
    """A proxy that listens until the block ends."""
    proxy = FaultProxy(target)
    await proxy.listen()
    try:
        yield proxy
    finally:
        await proxy.refuse()
