"""A connection that sends bytes unchanged."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Line:
    """A connection to the service."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send bytes; bytes that the service no longer accepts are dropped."""
        with contextlib.suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def wait_until_dropped(self, seconds: float = 60) -> None:
        """Wait until the service, which runs in this process, has closed the connection."""
        own = self.writer.get_extra_info("sockname")
        async with asyncio.timeout(seconds):
            while any(c.raddr == own for c in psutil.Process().net_connections("tcp")):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def read(self, seconds: float = 60) -> bytes:
        """All bytes until the service closes the connection. Raises TimeoutError if it does not."""
        answer = b""
        async with asyncio.timeout(seconds):
            with contextlib.suppress(ConnectionError):
                while part := await self.reader.read(65_536):
                    answer += part
        return answer


@contextlib.asynccontextmanager
async def connect(address: str) -> AsyncIterator[Line]:
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Line(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def expect_closing_problem(answer: bytes, status: int) -> dict[str, object]:
    """The problem in a response that ends its connection."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0].startswith(f"http/1.1 {status} "), answer[:300]
    assert "content-type: application/problem+json" in lines
    assert "connection: close" in lines
    problem: dict[str, object] = json.loads(body)
    assert problem["status"] == status
    assert f"x-request-id: {problem['request_id']}" in lines
    return problem
