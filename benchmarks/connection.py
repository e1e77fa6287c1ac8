"""A connection to the service under load."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit


class Connection:
    """One kept connection that sends requests and reads responses."""

    def __init__(self, url: str, token: str) -> None:
        self._address = urlsplit(url)
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the response. Raises OSError, IncompleteReadError."""
        host, port = self._address.hostname, self._address.port
        if self._streams is None:
            self._streams = await asyncio.open_connection(host, port)
        reader, writer = self._streams
        head = (
            f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: {host}\r\n"
            f"Authorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            content = await reader.readexactly(
                int(answer.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            )
        except BaseException:
            self.close()
            raise
        return int(answer.split(b" ", 2)[1]), content

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
