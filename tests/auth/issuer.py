"""A small real HTTP server that publishes signing keys, and misbehaves on request."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Any, Self


class Issuer:
    """Serves `body` with `status` at `url`; `requests` counts what arrived."""

    def __init__(self) -> None:
        self.status = "200 OK"
        self.headers = "content-type: application/json\r\n"
        self.body = b'{"keys": []}'
        self.requests = 0
        self.heads: list[str] = []
        self.open = asyncio.Event()
        self.open.set()
        self._arrived = asyncio.Condition()
        self._server: asyncio.Server | None = None

    def publish(self, *keys: dict[str, Any]) -> None:
        """Answer properly with these keys."""
        self.status, self.body = "200 OK", json.dumps({"keys": keys}).encode()

    @property
    def url(self) -> str:
        """The address of the key set."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/keys"

    async def wait_for_requests(self, count: int) -> None:
        """Return once `count` requests have arrived."""
        async with asyncio.timeout(5), self._arrived:
            await self._arrived.wait_for(lambda: self.requests >= count)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self.open.set()
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            async with self._arrived:
                self.requests += 1
                self._arrived.notify_all()
            await self.open.wait()
            head = f"HTTP/1.1 {self.status}\r\n{self.headers}connection: close\r\n"
            head += f"content-length: {len(self.body)}\r\n\r\n"
            writer.write(head.encode() + self.body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the client stopped reading, as it should for an answer too large
        finally:
            writer.close()
